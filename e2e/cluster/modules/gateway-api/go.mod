// The definitions of the Gateway API, for the integration tests. Nothing of it is built.
module tandem-inference.io/e2e/gateway-api

go 1.25.0

require sigs.k8s.io/gateway-api v1.4.1
