package prefix

import (
	"context"
	"sync"
)

// bell wakes those who wait for the events of one job or task, any number of goroutines: the library tells one of its
// waiters for each, once when there are events and again after somebody has found none.
//
// A reader takes next() before it looks for an event: an event that comes after the look closes that channel.
type bell struct {
	mutex   sync.Mutex
	readers int
	rung    chan struct{} // closed when there may be an event; then there is another
	forget  func()
}

func (b *bell) enter(notify notice) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.readers == 0 {
		waiter, err := theWaiter()
		if err != nil {
			return err
		}
		b.rung = make(chan struct{})
		if b.forget, err = waiter.watch(b.ring, notify); err != nil {
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

// wait looks until it no longer says [ErrTimeout]. When ctx ends first the error is its own, and its cause.
func (b *bell) wait(ctx context.Context, look func() error) error {
	for ctx.Err() == nil {
		rung := b.next()
		if err := look(); !isStatus(err, ErrTimeout) {
			return err
		}
		select {
		case <-rung:
		case <-ctx.Done():
		}
	}
	return ended(ctx)
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
