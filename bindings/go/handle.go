package prefix

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// handle owns one reference of a native object. It is embedded in the types that have Close, and must not be
// copied. The library answers calls on a released handle with a status, so a Close that overtakes a call of another
// goroutine is an error there, never a crash.
type handle struct {
	raw     atomic.Uintptr
	what    string
	release func(uintptr)
	cleanup runtime.Cleanup
}

// own takes the reference; the garbage collector drops it when Close never does.
func (h *handle) own(raw uintptr, what string, release func(uintptr)) {
	h.what, h.release = what, release
	h.raw.Store(raw)
	h.cleanup = runtime.AddCleanup(h, release, raw)
}

// ptr is the handle for one call. The caller keeps the owner alive until the call is over.
func (h *handle) ptr() (uintptr, error) {
	stress()
	if raw := h.raw.Load(); raw != 0 {
		return raw, nil
	}
	what := h.what
	if what == "" {
		what = "value that was never opened"
	}
	return 0, fmt.Errorf("prefix: the %s is %w: %w", what, ErrClosed, ErrMisuse)
}

// told is the error of a call; where the handle was released meanwhile, that of one that was closed before.
func (h *handle) told(err error) error {
	if isStatus(err, ErrMisuse) {
		if _, closed := h.ptr(); closed != nil {
			return closed
		}
	}
	return err
}

// Close frees the native object. Closing again does nothing; the error is always nil.
func (h *handle) Close() error {
	if raw := h.raw.Swap(0); raw != 0 {
		h.cleanup.Stop()
		h.release(raw)
	}
	return nil
}
