package prefix

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"prefix.io/prefix/internal/swig"
)

// Status is what kind of failure an [Error] is. Each is an error by itself, for [errors.Is].
type Status int32

// The kinds of failures.
const (
	ErrInvalidArgument      Status = swig.PREFIX_ERR_INVALID_ARGUMENT      // an empty list, a value that makes no sense
	ErrInvalidUTF8          Status = swig.PREFIX_ERR_INVALID_UTF8          // text that is not UTF-8
	ErrUnknownOption        Status = swig.PREFIX_ERR_UNKNOWN_OPTION        // the message names the nearest option
	ErrOutOfRange           Status = swig.PREFIX_ERR_OUT_OF_RANGE          // a number outside its limits
	ErrStructTooOld         Status = swig.PREFIX_ERR_STRUCT_TOO_OLD        // never from this package
	ErrBufferTooSmall       Status = swig.PREFIX_ERR_BUFFER_TOO_SMALL      // never from this package
	ErrMisuse               Status = swig.PREFIX_ERR_MISUSE                // the wrong moment, or a closed value
	ErrForked               Status = swig.PREFIX_ERR_FORKED                // called in the child of a fork
	ErrNotFound             Status = swig.PREFIX_ERR_NOT_FOUND             // no such file, namespace, result
	ErrIO                   Status = swig.PREFIX_ERR_IO                    // the system could not read or write
	ErrFormat               Status = swig.PREFIX_ERR_FORMAT                // a corrupt or contradictory file
	ErrUnsupportedModel     Status = swig.PREFIX_ERR_UNSUPPORTED_MODEL     // a valid model that the library does not run
	ErrUnsupportedDevice    Status = swig.PREFIX_ERR_UNSUPPORTED_DEVICE    // this machine lacks what was asked for
	ErrIncompatibleSnapshot Status = swig.PREFIX_ERR_INCOMPATIBLE_SNAPSHOT // a snapshot of another model or version
	ErrPromptTooLong        Status = swig.PREFIX_ERR_PROMPT_TOO_LONG       // more tokens than the context holds
	ErrNotFinite            Status = swig.PREFIX_ERR_NOT_FINITE            // the model computed a NaN or an infinity for this request
	ErrOutOfMemory          Status = swig.PREFIX_ERR_OUT_OF_MEMORY
	ErrOutOfDeviceMemory    Status = swig.PREFIX_ERR_OUT_OF_DEVICE_MEMORY
	ErrCacheFull            Status = swig.PREFIX_ERR_CACHE_FULL // cache_bytes is too small for the request
	ErrQueueFull            Status = swig.PREFIX_ERR_QUEUE_FULL // too many unfinished requests; try again later
	ErrTimeout              Status = swig.PREFIX_ERR_TIMEOUT    // a wait that ran out
	ErrDeadline             Status = swig.PREFIX_ERR_DEADLINE   // option deadline_ms
	ErrCancelled            Status = swig.PREFIX_ERR_CANCELLED
	ErrDeviceLost           Status = swig.PREFIX_ERR_DEVICE_LOST
	ErrEngineFailed         Status = swig.PREFIX_ERR_ENGINE_FAILED // an earlier internal failure; open a new engine
	ErrNoEvent              Status = swig.PREFIX_ERR_NO_EVENT      // nothing to poll now
	ErrInternal             Status = swig.PREFIX_ERR_INTERNAL      // a bug in the library
)

// ErrClosed is the error of using a closed value; it is also [ErrMisuse].
var ErrClosed = errors.New("closed")

// String is the name in the C header, "PREFIX_ERR_FORMAT".
func (s Status) String() string { return swig.Prefix_status_name(int32(s)) }

// Error describes the status in words.
func (s Status) Error() string {
	name := strings.TrimPrefix(s.String(), "PREFIX_ERR_")
	return "prefix: " + strings.ToLower(strings.ReplaceAll(name, "_", " "))
}

// Retryable says whether the same call may succeed later.
func (s Status) Retryable() bool { return swig.Prefix_status_is_retryable(int32(s)) != 0 }

// Error is a failure that the library reported.
type Error struct {
	Status  Status
	Domain  string // the function of the library
	Message string // one sentence with the value and the limit that it broke
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Status.Error()
	}
	return "prefix: " + e.Message
}

// Unwrap gives the status.
func (e *Error) Unwrap() error { return e.Status }

// Is says which errors of the standard library the failure is too: [fs.ErrNotExist] for [ErrNotFound],
// [context.DeadlineExceeded] and [os.ErrDeadlineExceeded] for [ErrDeadline] and [ErrTimeout], [context.Canceled] for
// [ErrCancelled], [errors.ErrUnsupported] for models and devices that cannot be run, [fs.ErrInvalid] for arguments and
// options that make no sense.
func (e *Error) Is(target error) bool {
	switch e.Status {
	case ErrNotFound:
		return target == fs.ErrNotExist
	case ErrDeadline, ErrTimeout:
		return target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded
	case ErrCancelled:
		return target == context.Canceled
	case ErrUnsupportedModel, ErrUnsupportedDevice:
		return target == errors.ErrUnsupported
	case ErrInvalidArgument, ErrInvalidUTF8, ErrUnknownOption, ErrOutOfRange, ErrPromptTooLong:
		return target == fs.ErrInvalid
	}
	return false
}

// failures are reused, since each is half a kilobyte that C writes only on failure.
var failures = sync.Pool{New: func() any { return &swig.Error{StructSize: swig.SizeofError} }}

// call runs one function of the library and makes its status an error.
func call(function func(failure *swig.Error) int32) error {
	failure := failures.Get().(*swig.Error)
	defer failures.Put(failure)
	failure.Clear() // the failure of an earlier call; one that has no memory for its texts writes none
	status := function(failure)
	if status == swig.PREFIX_OK {
		return nil
	}
	return &Error{Status(status), failure.Domain(), failure.Message()}
}

func isStatus(err error, status Status) bool {
	failure, ok := err.(*Error)
	return ok && failure.Status == status
}

// cancelled is the error of work that ended because of its context: [ErrCancelled], and what ended is.
func cancelled(ctx context.Context) error {
	return ofContext(ctx, fmt.Errorf("%w: %w", ErrCancelled, context.Cause(ctx)))
}

// ended is the error of a wait that ended because of its context: the cause, and where somebody gave another cause the
// error of the context too.
func ended(ctx context.Context) error { return ofContext(ctx, context.Cause(ctx)) }

func ofContext(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return &caused{err, ctx.Err()}
}

// caused is an error that is the error of its context too.
type caused struct {
	error
	context error
}

func (c *caused) Unwrap() []error { return []error{c.error, c.context} }

// ready says whether the loaded libraries are new enough for this package.
var ready = sync.OnceValue(func() error {
	for _, library := range []struct {
		name         string
		has, needing int32
	}{
		{"libprefix", swig.Prefix_abi_version(), swig.PREFIX_ABI_VERSION},
		{"libprefix_text", swig.Prefix_text_abi_version(), swig.PREFIX_TEXT_ABI_VERSION},
	} {
		if library.has < library.needing {
			return fmt.Errorf("prefix: the loaded %s has ABI version %d, and %d is needed", library.name, library.has,
				library.needing)
		}
	}
	return nil
})
