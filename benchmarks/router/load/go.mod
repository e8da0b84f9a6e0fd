// Both ends of the router's benchmark: a trivial engine and a load generator.
module tandem-inference.io/benchmarks/router/load

go 1.21
