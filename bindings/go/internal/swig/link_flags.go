//go:build prefix_flags

package swig

// With the build tag prefix_flags the environment says where the library is: CGO_CFLAGS=-I..., CGO_LDFLAGS=-L...

// #cgo LDFLAGS: -lprefix_text -lprefix
import "C"
