package prefix

import (
	"context"
	"iter"
	"runtime"

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
	// A context may outlive any number of jobs that nobody closes.
	runtime.AddCleanup(job, func(stop func() bool) { stop() }, job.stop)
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
func (j *Job) Wait(ctx context.Context) error {
	raw, err := j.ptr()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(j)
	return j.told(await(ctx, func() error {
		return call(func(f *swig.Error) int32 { return swig.Prefix_job_wait(raw, 0, f) })
	}, func(queue uintptr, tag int64, f *swig.Error) int32 { return swig.Prefix_job_notify(raw, queue, tag, f) }))
}

// Cancel ends the requests that still run with [ErrCancelled]. It returns at once; Wait says when it is done.
func (j *Job) Cancel() error { return callOn(&j.handle, swig.Prefix_job_cancel) }

// CancelRequest is Cancel for one request.
func (j *Job) CancelRequest(request int) error {
	return callAt(&j.handle, "request", request, swig.Prefix_job_cancel_request)
}

// FinishedCount counts the requests that are over.
func (j *Job) FinishedCount() (int, error) {
	var count uintptr
	err := callOn(&j.handle, func(raw uintptr, f *swig.Error) int32 {
		return swig.Prefix_job_finished_count(raw, &count, f)
	})
	return int(count), err
}

// Events yields what happens until the job is over. Each event goes to one reader. When ctx ends first, the last pair
// has its error; the job goes on.
func (j *Job) Events(ctx context.Context) iter.Seq2[Event, error] {
	return events(ctx, &j.handle, &j.bell, swig.Prefix_job_notify_events, func(raw *swig.Event) (string, error) {
		return "", callOn(&j.handle, func(job uintptr, f *swig.Error) int32 {
			return swig.Prefix_job_next_event(job, 0, raw, f)
		})
	})
}
