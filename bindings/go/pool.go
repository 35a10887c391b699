package prefix

import (
	"runtime"

	"prefix.io/prefix/internal/swig"
)

// Pool is worker threads that engines share, so that a process with several engines has one set of them; their steps
// take turns. Engines get it as an option: Options{"pool": pool}, not beside "threads" and "cpus". They keep its
// threads, so it may be closed before them.
type Pool struct{ handle }

// NewPool starts the threads, by the options "threads" and "cpus"; without them one for each processor that the
// process may use. Close the pool when done.
func NewPool(options Options) (*Pool, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	native, release, err := options.native()
	if err != nil {
		return nil, err
	}
	defer release()
	var raw uintptr
	if err := call(func(f *swig.Error) int32 { return swig.Prefix_pool_create(native, &raw, f) }); err != nil {
		return nil, err
	}
	pool := &Pool{}
	pool.own(raw, "pool", swig.Prefix_pool_release)
	return pool, nil
}

func (p *Pool) giveTo(options uintptr) error {
	defer runtime.KeepAlive(p)
	raw, err := p.ptr()
	if err != nil {
		return err
	}
	return call(func(f *swig.Error) int32 { return swig.Prefix_options_set_pool(options, raw, f) })
}
