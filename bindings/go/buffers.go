package prefix

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"prefix.io/prefix/internal/swig"
)

// getText asks a function that writes text into the caller's buffer, again where the first guess is too small.
func getText(guess int, get func(buffer []byte, needed *uintptr, failure *swig.Error) int32) (string, error) {
	buffer, err := getArray(guess, get)
	return string(buffer), err
}

// getArray is getText for any element. `needed` of a call may grow until the next one.
func getArray[E byte | int32 | int64 | float32](
	guess int, get func(buffer []E, needed *uintptr, failure *swig.Error) int32,
) ([]E, error) {
	buffer := make([]E, guess+1) // text ends with a zero, and an empty buffer would only ask
	for {
		var needed uintptr
		err := call(func(f *swig.Error) int32 { return get(buffer, &needed, f) })
		if err == nil {
			return buffer[:needed:needed], nil
		}
		if !isStatus(err, ErrBufferTooSmall) {
			return nil, err
		}
		// Texts such as counters change their length between two calls.
		buffer = make([]E, needed+needed/8+1)
	}
}

// textOf and arrayOf are the same for functions of one handle.
func textOf(
	h *handle, guess int, get func(raw uintptr, buffer []byte, needed *uintptr, failure *swig.Error) int32,
) (string, error) {
	buffer, err := arrayOf(h, guess, get)
	return string(buffer), err
}

func arrayOf[E byte | int32 | int64 | float32](
	h *handle, guess int, get func(raw uintptr, buffer []E, needed *uintptr, failure *swig.Error) int32,
) ([]E, error) {
	raw, err := h.ptr()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(h)
	array, err := getArray(guess, func(buffer []E, needed *uintptr, f *swig.Error) int32 { return get(raw, buffer, needed, f) })
	return array, h.told(err)
}

// callOn runs a function of one handle.
func callOn(h *handle, function func(raw uintptr, failure *swig.Error) int32) error {
	raw, err := h.ptr()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(h)
	return h.told(call(func(f *swig.Error) int32 { return function(raw, f) }))
}

// place is a number that C counts from 0, of a request for instance. What is below would be an enormous one there, which
// the library's sentence would name.
func place(what string, number int) (uintptr, error) {
	if number < 0 {
		return 0, &Error{Status: ErrOutOfRange, Message: fmt.Sprintf("%s is %d; at least 0", what, number)}
	}
	return uintptr(number), nil
}

// callAt is callOn for functions of one request or item.
func callAt(h *handle, what string, number int, function func(raw, at uintptr, failure *swig.Error) int32) error {
	at, err := place(what, number)
	if err != nil {
		return err
	}
	return callOn(h, func(raw uintptr, f *swig.Error) int32 { return function(raw, at, f) })
}

// arrayAt is arrayOf for functions of one request or item.
func arrayAt[E byte | int32 | int64 | float32](
	h *handle, what string, number, guess int,
	get func(raw, at uintptr, buffer []E, needed *uintptr, failure *swig.Error) int32,
) ([]E, error) {
	at, err := place(what, number)
	if err != nil {
		return nil, err
	}
	return arrayOf(h, guess, func(raw uintptr, buffer []E, needed *uintptr, f *swig.Error) int32 {
		return get(raw, at, buffer, needed, f)
	})
}

// join puts lists into one array with offsets.
func join(lists [][]Token) (joined []Token, offsets []int64) {
	total := 0
	for _, list := range lists {
		total += len(list)
	}
	joined, offsets = make([]Token, 0, total), make([]int64, 1, len(lists)+1)
	for _, list := range lists {
		joined = append(joined, list...)
		offsets = append(offsets, int64(len(joined)))
	}
	return joined, offsets
}

// pack puts texts behind a table of where each begins and the last one ends, as bindings/swig/prefix.i draws it.
func pack(texts []string) []byte {
	end := 8 * (len(texts) + 1)
	size := end
	for _, text := range texts {
		size += len(text)
	}
	packed := make([]byte, end, size)
	for i, text := range texts {
		binary.NativeEndian.PutUint64(packed[8*i:], uint64(len(packed)))
		packed = append(packed, text...)
	}
	binary.NativeEndian.PutUint64(packed[end-8:], uint64(len(packed)))
	return packed
}
