package prefix

import (
	"sync"

	"prefix.io/prefix/internal/swig"
)

// bell wakes those who wait for the events of one job, any number of goroutines: the library tells one of its waiters
// for each job, once when there are events and again after somebody has found none.
//
// A reader takes next() before it looks for an event: an event that comes after the look closes that channel.
type bell struct {
	mutex   sync.Mutex
	readers int
	rung    chan struct{} // closed when there may be an event; then there is another
	forget  func()
}

func (b *bell) enter(job uintptr) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.readers == 0 {
		waiter, err := theWaiter()
		if err != nil {
			return err
		}
		b.rung = make(chan struct{})
		b.forget, err = waiter.watch(b.ring, func(queue uintptr, tag int64, f *swig.Error) int32 {
			return swig.Prefix_job_notify_events(job, queue, tag, f)
		})
		if err != nil {
			return err
		}
	}
	b.readers++
	return nil
}

func (b *bell) leave() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.readers--; b.readers == 0 {
		b.forget()
	}
}

func (b *bell) next() <-chan struct{} {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.rung
}

func (b *bell) ring() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}
