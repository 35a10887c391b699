//go:build !prefix_flags

package swig

// The installed library says where it is.

// #cgo pkg-config: prefix_text prefix
import "C"
