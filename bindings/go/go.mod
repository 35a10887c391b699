module prefix.io/prefix

go 1.24
