// Two small programs of ours inside the node image.
module tandem-inference.io/e2e/node

go 1.21
