package prefix

import (
	"sync"
	"sync/atomic"

	"prefix.io/prefix/internal/swig"
)

// waiter is the one goroutine of the process, and so the one thread, that waits inside the library for jobs, their
// events and loads, whatever their number: a completion queue tells it which are done or have events to read.
type waiter struct {
	queue  uintptr
	next   atomic.Int64
	places sync.Map // from a tag to what is called when it comes
}

// jobs is made by the first who waits, and again as long as that fails.
var jobs struct {
	sync.Mutex
	*waiter
}

func theWaiter() (*waiter, error) {
	jobs.Lock()
	defer jobs.Unlock()
	if jobs.waiter == nil {
		w := new(waiter)
		if err := call(func(f *swig.Error) int32 { return swig.Prefix_queue_create(&w.queue, f) }); err != nil {
			return nil, err
		}
		go w.run()
		jobs.waiter = w
	}
	return jobs.waiter, nil
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
func (w *waiter) watch(wake func(), notify func(queue uintptr, tag int64, f *swig.Error) int32) (forget func(), err error) {
	tag := w.next.Add(1)
	w.places.Store(tag, wake)
	forget = func() { w.places.Delete(tag) }
	err = call(func(f *swig.Error) int32 { return notify(w.queue, tag, f) })
	if err != nil {
		forget()
	}
	return forget, err
}
