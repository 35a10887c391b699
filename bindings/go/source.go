package prefix

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"prefix.io/prefix/internal/swig"
)

// Source is the files of a model in memory: those of a Hugging Face directory by their names, or one with a name that
// ends with ".gguf". Nothing is copied: the bytes may not change until Close. A file that [syscall.Mmap] maps will do too.
type Source struct {
	handle
	mutex sync.RWMutex // loads hold it for reading, so that Close waits for them
	pins  *runtime.Pinner
}

// NewSource makes one without files. Close it when what is opened from it is open.
func NewSource() (*Source, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	var raw uintptr
	if err := call(func(f *swig.Error) int32 { return swig.Prefix_source_create(&raw, f) }); err != nil {
		return nil, err
	}
	source := &Source{pins: new(runtime.Pinner)}
	source.own(raw, "source", swig.Prefix_source_release)
	runtime.AddCleanup(source, (*runtime.Pinner).Unpin, source.pins) // where Close never does
	return source, nil
}

// Add adds a file. [ErrInvalidArgument] for a name that is there already, or that leads out of the model's directory.
func (s *Source) Add(name string, data []byte) error {
	if len(data) > 0 {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if _, err := s.ptr(); err != nil {
			return err
		}
		s.pins.Pin(&data[0]) // also of a name that is refused: it stays until Close
	}
	return callOn(&s.handle, func(raw uintptr, f *swig.Error) int32 {
		return swig.Prefix_source_add_buffer(raw, name, data, f)
	})
}

// Close waits for loads and gives the files back. Engines that were opened stay.
func (s *Source) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	err := s.handle.Close()
	s.pins.Unpin()
	return err
}

// OpenSource is [Open] for a model in memory.
func OpenSource(ctx context.Context, source *Source, options Options) (*Engine, error) {
	source.mutex.RLock()
	defer source.mutex.RUnlock()
	files, err := source.ptr()
	if err != nil {
		return nil, fmt.Errorf("prefix: no model: %w", err)
	}
	defer runtime.KeepAlive(source)
	return open(ctx, options, func(native uintptr, raw *uintptr, f *swig.Error) int32 {
		return swig.Prefix_engine_open_source(files, native, raw, f)
	})
}
