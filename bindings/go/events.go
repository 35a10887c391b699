package prefix

import (
	"context"
	"iter"
	"time"

	"prefix.io/prefix/internal/swig"
)

// EventKind is what an [Event] tells.
type EventKind int32

// The kinds of events.
const (
	EventStarted  EventKind = swig.PREFIX_EVENT_STARTED
	EventToken    EventKind = swig.PREFIX_EVENT_TOKEN
	EventLost     EventKind = swig.PREFIX_EVENT_LOST // Count tokens of the job were not read in time
	EventFinished EventKind = swig.PREFIX_EVENT_FINISHED
	EventError    EventKind = swig.PREFIX_EVENT_ERROR
	EventText     EventKind = swig.PREFIX_EVENT_TEXT // of tasks, with option stream
)

func (k EventKind) String() string {
	return nameOf(int32(k), "EventKind", "started", "token", "lost", "finished", "error", "text")
}

// Event is something that happened to a request, or to an item of a task.
type Event struct {
	Kind     EventKind
	Request  int // number in the batch; of a task, of the item
	Tag      int64
	Text     string  // of EventText: more of the text
	Token    Token   // of EventToken
	Logprob  float32 // of EventToken, with option logprobs
	Status   Status  // of EventError; 0 otherwise
	Cached   int     // tokens, of EventFinished and EventError
	Computed int
	Count    int           // of EventLost
	Time     time.Duration // on the library's monotonic clock
}

// events yields what next finds until there will be no more. notify has a bell rung when there is an event.
func events(
	ctx context.Context, h *handle, b *bell, notify func(raw, queue uintptr, tag int64, f *swig.Error) int32,
	next func(*swig.Event) (text string, err error),
) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		owner, err := h.ptr()
		if err == nil {
			err = b.enter(func(queue uintptr, tag int64, f *swig.Error) int32 { return notify(owner, queue, tag, f) })
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer b.leave()
		raw := swig.Event{StructSize: swig.SizeofEvent}
		for {
			var text string
			err := b.wait(ctx, func() error {
				var err error
				text, err = next(&raw)
				return err
			})
			if isStatus(err, ErrNoEvent) {
				return
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !yield(Event{
				EventKind(raw.Kind), int(raw.Request), raw.UserTag, text, raw.Token, raw.Logprob, Status(raw.Status),
				int(raw.Cached), int(raw.Computed), int(raw.Count), microseconds(raw.TimeUs),
			}, nil) {
				return
			}
		}
	}
}
