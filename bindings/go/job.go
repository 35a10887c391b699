package prefix

import (
	"context"
	"iter"
	"runtime"
	"time"

	"prefix.io/prefix/internal/swig"
)

// Job is a batch that runs or has run.
type Job struct {
	handle
	requests int
	values   int
	stop     func() bool // takes the job away from its context
	bell     bell
}

func newJob(ctx context.Context, raw uintptr, requests, values int) *Job {
	job := &Job{requests: requests, values: values}
	job.own(raw, "job", swig.Prefix_job_release)
	// Only the number, so that the context does not keep the job alive; after a release it is answered with a status.
	job.stop = context.AfterFunc(ctx, func() { swig.Prefix_job_cancel(raw, nil) })
	return job
}

// Close frees the job and cancels what still runs.
func (j *Job) Close() error {
	if j.stop != nil {
		j.stop()
	}
	return j.handle.Close()
}

// Detach is for fire and forget: the job goes on when it is closed or forgotten, and when its context ends.
func (j *Job) Detach() error {
	if j.stop != nil {
		j.stop()
	}
	return callOn(&j.handle, swig.Prefix_job_detach)
}

// Len counts the requests.
func (j *Job) Len() int { return j.requests }

// Wait waits for all requests, whatever their status. When ctx ends first it returns the error of ctx, and the job
// goes on.
func (j *Job) Wait(ctx context.Context) error { return j.wait(ctx) }

func (j *Job) wait(ctx context.Context) error {
	raw, err := j.ptr()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(j)
	look := func() error { return call(func(f *swig.Error) int32 { return swig.Prefix_job_wait(raw, 0, f) }) }
	if err := look(); !isStatus(err, ErrTimeout) {
		return err
	}
	waiter, err := theWaiter()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	forget, err := waiter.watch(func() { close(done) }, func(queue uintptr, tag int64, f *swig.Error) int32 {
		return swig.Prefix_job_notify(raw, queue, tag, f) // one tag
	})
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
	return context.Cause(ctx)
}

func isStatus(err error, status Status) bool {
	failure, ok := err.(*Error)
	return ok && failure.Status == status
}

// Cancel ends the requests that still run with [ErrCancelled]. It returns at once; Wait says when it is done.
func (j *Job) Cancel() error { return callOn(&j.handle, swig.Prefix_job_cancel) }

// CancelRequest is Cancel for one request.
func (j *Job) CancelRequest(request int) error {
	return callOn(&j.handle, func(raw uintptr, f *swig.Error) int32 {
		return swig.Prefix_job_cancel_request(raw, uintptr(request), f)
	})
}

// Finished counts the requests that are over.
func (j *Job) Finished() (int, error) {
	var count uintptr
	err := callOn(&j.handle, func(raw uintptr, f *swig.Error) int32 {
		return swig.Prefix_job_finished_count(raw, &count, f)
	})
	return int(count), err
}

// nextEvent waits for an event.
func (j *Job) nextEvent(ctx context.Context, event *swig.Event) error {
	for {
		rung := j.bell.next()
		err := callOn(&j.handle, func(job uintptr, f *swig.Error) int32 { return swig.Prefix_job_next_event(job, 0, event, f) })
		if !isStatus(err, ErrTimeout) {
			return err
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// EventKind is what an [Event] tells.
type EventKind int32

// The kinds of events.
const (
	EventStarted  EventKind = swig.PREFIX_EVENT_STARTED
	EventToken    EventKind = swig.PREFIX_EVENT_TOKEN
	EventLost     EventKind = swig.PREFIX_EVENT_LOST // Count events of the job were not read in time
	EventFinished EventKind = swig.PREFIX_EVENT_FINISHED
	EventError    EventKind = swig.PREFIX_EVENT_ERROR
)

func (k EventKind) String() string {
	return nameOf(int32(k), "EventKind", "started", "token", "lost", "finished", "error")
}

// Event is something that happened to a request.
type Event struct {
	Kind     EventKind
	Request  int // number in the batch
	Tag      int64
	Token    Token   // of EventToken
	Logprob  float32 // of EventToken, with option logprobs
	Status   Status  // of EventError; 0 otherwise
	Cached   int     // tokens, of EventFinished and EventError
	Computed int
	Count    int           // of EventLost
	Time     time.Duration // on the library's monotonic clock
}

// Events yields what happens until the job is over. Each event goes to one reader. When ctx ends first, the last pair
// has its error; the job goes on.
func (j *Job) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		job, err := j.ptr()
		if err == nil {
			err = j.bell.enter(job)
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer j.bell.leave()
		raw := swig.Event{StructSize: swig.SizeofEvent}
		for {
			err := j.nextEvent(ctx, &raw)
			if isStatus(err, ErrNoEvent) {
				return
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !yield(Event{
				EventKind(raw.Kind), int(raw.Request), raw.UserTag, raw.Token, raw.Logprob, Status(raw.Status),
				int(raw.Cached), int(raw.Computed), int(raw.Count), microseconds(raw.TimeUs),
			}, nil) {
				return
			}
		}
	}
}
