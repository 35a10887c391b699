package prefix_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"prefix.io/prefix"
)

// TestErrorsAreThoseOfGo: each failure is the error of the standard library that its readers ask for, and no other.
func TestErrorsAreThoseOfGo(t *testing.T) {
	all := []error{fs.ErrNotExist, fs.ErrInvalid, context.DeadlineExceeded, os.ErrDeadlineExceeded, context.Canceled,
		errors.ErrUnsupported}
	for status, want := range map[prefix.Status][]error{
		prefix.ErrNotFound:          {fs.ErrNotExist},
		prefix.ErrInvalidArgument:   {fs.ErrInvalid},
		prefix.ErrUnknownOption:     {fs.ErrInvalid},
		prefix.ErrOutOfRange:        {fs.ErrInvalid},
		prefix.ErrPromptTooLong:     {fs.ErrInvalid},
		prefix.ErrInvalidUTF8:       {fs.ErrInvalid},
		prefix.ErrDeadline:          {context.DeadlineExceeded, os.ErrDeadlineExceeded},
		prefix.ErrTimeout:           {context.DeadlineExceeded, os.ErrDeadlineExceeded},
		prefix.ErrCancelled:         {context.Canceled},
		prefix.ErrUnsupportedModel:  {errors.ErrUnsupported},
		prefix.ErrUnsupportedDevice: {errors.ErrUnsupported},
		prefix.ErrIO:                nil,
		prefix.ErrMisuse:            nil,
	} {
		err := error(&prefix.Error{Status: status})
		for _, target := range all {
			wanted := false
			for _, one := range want {
				wanted = wanted || one == target
			}
			if errors.Is(err, target) != wanted {
				t.Errorf("%v: is %v is %v", err, target, !wanted)
			}
		}
		if !errors.Is(err, status) {
			t.Error(status)
		}
	}
	if _, err := prefix.Open(background, "/nowhere", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := prefix.OpenTokenizer("/nowhere"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestTheErrorOfAContextAndItsCause(t *testing.T) {
	why := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(background)
	cancel(why)
	_, err := prefix.Open(ctx, "/nowhere", nil)
	for _, want := range []error{why, context.Canceled, prefix.ErrCancelled} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	late, stop := context.WithTimeout(background, 0)
	defer stop()
	if _, err := prefix.Open(late, "/nowhere", nil); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Waits and events say both as well, and nothing of cancelled work: it goes on.
func TestTheErrorOfAWaitIsThatOfItsContext(t *testing.T) {
	why := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(background)
	cancel(why)
	engine := open(t)
	job := must(engine.Submit(background, generations(t, engine, 200)))(t)
	defer job.Close()
	failures := []error{job.Wait(ctx)}
	for _, err := range job.Events(ctx) {
		failures = append(failures, err)
	}
	if len(failures) != 2 {
		t.Fatal(failures)
	}
	for _, err := range failures {
		if !errors.Is(err, why) || !errors.Is(err, context.Canceled) || errors.Is(err, prefix.ErrCancelled) {
			t.Error(err)
		}
	}
}
