"""What two parts of Tandem say to each other, defined once for those that write and read it."""
