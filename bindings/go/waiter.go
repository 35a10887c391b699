package prefix

import (
	"context"
	"sync"
	"sync/atomic"

	"prefix.io/prefix/internal/swig"
)

// waiter is the one goroutine of the process, and so the one thread, that waits inside the library for jobs, tasks,
// their events and loads, whatever their number: a completion queue tells it which are done or have events to read.
type waiter struct {
	queue  uintptr
	next   atomic.Int64
	places sync.Map // from a tag to what is called when it comes
}

// shared is made by the first who waits, and again as long as that fails.
var shared struct {
	sync.Mutex
	*waiter
}

func theWaiter() (*waiter, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.waiter == nil {
		w := new(waiter)
		if err := call(func(f *swig.Error) int32 { return swig.Prefix_queue_create(&w.queue, f) }); err != nil {
			return nil, err
		}
		go w.run()
		shared.waiter = w
	}
	return shared.waiter, nil
}

func (w *waiter) run() {
	for {
		var tag int64
		if swig.Prefix_queue_next(w.queue, -1, &tag, nil) != swig.PREFIX_OK {
			return
		}
		if wake, ok := w.places.Load(tag); ok {
			wake.(func())()
		}
	}
}

// watch calls wake, which does not block, whenever the tag comes that notify asks for, until forget is called.
func (w *waiter) watch(wake func(), notify notice) (forget func(), err error) {
	tag := w.next.Add(1)
	w.places.Store(tag, wake)
	forget = func() { w.places.Delete(tag) }
	err = call(func(f *swig.Error) int32 { return notify(w.queue, tag, f) })
	if err != nil {
		forget()
	}
	return forget, err
}

// notice asks the library to put a tag into a queue when there is something to see.
type notice func(queue uintptr, tag int64, f *swig.Error) int32

// await waits until look no longer says [ErrTimeout], which it does until the one tag of notify has come. When ctx ends
// first the error is its own, and its cause.
func await(ctx context.Context, look func() error, notify notice) error {
	if err := look(); !isStatus(err, ErrTimeout) {
		return err
	}
	waiter, err := theWaiter()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	forget, err := waiter.watch(func() { close(done) }, notify)
	if err != nil {
		return err
	}
	defer forget()
	select {
	case <-done:
		return look()
	case <-ctx.Done():
	}
	if err := look(); !isStatus(err, ErrTimeout) {
		return err
	}
	return ended(ctx)
}
