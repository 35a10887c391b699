package prefix

import (
	"sync"
	"sync/atomic"

	"prefix.io/prefix/internal/swig"
)

// waiter is the one goroutine of the process, and so the one thread, that waits inside the library for jobs, whatever
// their number: a completion queue tells it which are done.
type waiter struct {
	queue  uintptr
	next   atomic.Int64
	places sync.Map // from the tag of a job to the channel that is closed when it is done
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
		if done, ok := w.places.LoadAndDelete(tag); ok {
			close(done.(chan struct{}))
		}
	}
}

// watch gives a channel that is closed when the job is done, and what to call when nobody waits for it any more.
func (w *waiter) watch(job uintptr) (done <-chan struct{}, forget func(), err error) {
	tag, place := w.next.Add(1), make(chan struct{})
	w.places.Store(tag, place)
	forget = func() { w.places.Delete(tag) }
	err = call(func(f *swig.Error) int32 { return swig.Prefix_job_notify(job, w.queue, tag, f) })
	if err != nil {
		forget()
	}
	return place, forget, err
}
