// Package swig is the C interface of libprefix as Go functions: what SWIG writes from the headers, and little else.
//
// Handles are uintptr, statuses int32, and every value that C writes is behind a pointer. Nothing here keeps
// handles alive or frees them; package prefix does.
package swig

/*
#cgo CFLAGS: -Wno-unused-parameter
#include <string.h>
#include "prefix.h"
*/
import "C"

import "unsafe"

// Error is prefix_error.
type Error struct {
	StructSize int32
	Code       int32
	domain     [48]byte
	message    [456]byte
}

// SizeofError is its size in C.
const SizeofError = C.sizeof_prefix_error

// Array lengths that are negative, and so do not compile, where the layout differs.
type _ struct {
	_ [unsafe.Sizeof(Error{}) - C.sizeof_prefix_error]byte
	_ [C.sizeof_prefix_error - unsafe.Sizeof(Error{})]byte
}

// Domain is the function that failed.
func (e *Error) Domain() string { return text(e.domain[:]) }

// Message is one sentence.
func (e *Error) Message() string { return text(e.message[:]) }

func text(bytes []byte) string {
	for i, b := range bytes {
		if b == 0 {
			return string(bytes[:i])
		}
	}
	return string(bytes)
}

// Text reads a static text of the library.
func Text(start *byte) string {
	return C.GoString((*C.char)(unsafe.Pointer(start)))
}
