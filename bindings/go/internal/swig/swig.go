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

func text(bytes []byte) string {
	for i, b := range bytes {
		if b == 0 {
			return string(bytes[:i])
		}
	}
	return string(bytes)
}

// Clear takes the texts away.
func (s *Error) Clear() { s.domain[0], s.message[0] = 0, 0 }

// Text reads a static text of the library.
func Text(start *byte) string {
	return C.GoString((*C.char)(unsafe.Pointer(start)))
}
