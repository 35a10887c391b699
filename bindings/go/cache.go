package prefix

import (
	"errors"
	"sync"
	"time"
	"weak"

	"prefix.io/prefix/internal/swig"
)

// CacheInfo is what the cache has of a prompt.
type CacheInfo struct {
	CachedTokens  int // longest prefix that is computed; with recurrent layers, up to a state
	PendingTokens int // further tokens that are being computed now
}

// Lookup says what the cache has of a prompt in a namespace. It does not change what is evicted next.
func (e *Engine) Lookup(namespace Namespace, tokens []Token) (CacheInfo, error) {
	raw := swig.CacheInfo{StructSize: swig.SizeofCacheInfo}
	err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_cache_lookup(h, int32(namespace), tokens, &raw, f)
	})
	return CacheInfo{int(raw.CachedTokens), int(raw.PendingTokens)}, err
}

// LookupMany is CachedTokens of many prompts, in one call of the library.
func (e *Engine) LookupMany(namespace Namespace, prompts [][]Token) ([]int, error) {
	joined, offsets := join(prompts)
	found, err := arrayOf(&e.handle, len(prompts), func(h uintptr, b []int64, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_cache_lookup_many(h, int32(namespace), joined, offsets, b, needed, f)
	})
	if err != nil {
		return nil, err
	}
	cached := make([]int, len(found))
	for i, tokens := range found {
		cached[i] = int(tokens)
	}
	return cached, nil
}

// CacheUsage is what a namespace holds, and its limits; see [Engine.SetCacheLimits].
type CacheUsage struct {
	Tokens, Bytes          int64 // Bytes: of their keys and values
	FloorBytes, QuotaBytes int64
}

// CacheUsage says what of the cache a namespace uses. [ErrNotFound]: it is not open.
func (e *Engine) CacheUsage(namespace Namespace) (CacheUsage, error) {
	raw := swig.CacheUsage{StructSize: swig.SizeofCacheUsage}
	err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_cache_get_usage(h, int32(namespace), &raw, f)
	})
	return CacheUsage{raw.Tokens, raw.Bytes, raw.FloorBytes, raw.QuotaBytes}, err
}

// SetCacheLimits has others not evict the namespace below floorBytes, and it never hold more than quotaBytes (0: no
// quota): a request that does not fit gets [ErrCacheFull]. [ErrOutOfRange]: a negative number, a quota smaller than one
// token, a floor above the quota.
func (e *Engine) SetCacheLimits(namespace Namespace, floorBytes, quotaBytes int64) error {
	return callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_cache_set_limits(h, int32(namespace), floorBytes, quotaBytes, f)
	})
}

// Lease keeps a prefix in the cache; see [Engine.Pin]. It does not keep its engine: when that is gone, the lease has
// ended.
type Lease struct {
	Tokens int // that it keeps

	engine weak.Pointer[Engine]
	number int64
	once   sync.Once
	err    error
}

// Pin keeps the longest computed prefix of these tokens in the cache until the lease is closed, or for at most ttl (0:
// no limit). Pins add up: a prefix goes when the last lease on it has ended. What is pinned counts against cache_bytes.
// A lease that is never closed holds until its time, or the engine, ends. [ErrNotFound]: nothing of it is computed.
func (e *Engine) Pin(namespace Namespace, tokens []Token, ttl time.Duration) (*Lease, error) {
	var number, pinned int64
	if err := callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_cache_pin(h, int32(namespace), tokens, milliseconds(ttl), &number, &pinned, f)
	}); err != nil {
		return nil, err
	}
	return &Lease{Tokens: int(pinned), engine: weak.Make(e), number: number}, nil
}

// Close gives the prefix back. It does nothing when that was done, when the time of the lease is over, or when the
// engine is closed, shut down or collected.
func (l *Lease) Close() error {
	l.once.Do(func() {
		engine := l.engine.Value()
		if engine == nil {
			return
		}
		err := callOn(&engine.handle, func(h uintptr, f *swig.Error) int32 {
			return swig.Prefix_cache_unpin(h, l.number, f)
		})
		if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrMisuse) {
			l.err = err
		}
	})
	return l.err
}

// Evict evicts what continues these tokens (with none: the whole namespace), as far as no request uses and no lease
// keeps it; the tokens themselves stay. It returns how many tokens it freed.
func (e *Engine) Evict(namespace Namespace, tokens []Token) (freed int64, err error) {
	err = callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_cache_evict(h, int32(namespace), tokens, &freed, f)
	})
	return freed, err
}

// Trim evicts prefixes of all namespaces, in the order of the option cache_policy, until at most bytes are held or all
// that is left is in use or pinned. It returns how many tokens it freed.
func (e *Engine) Trim(bytes int64) (freed int64, err error) {
	err = callOn(&e.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_cache_trim(h, bytes, &freed, f) })
	return freed, err
}

// CacheTreeJSON is the tree of cached prefixes, for debugging; "prefix tree --from" paints it.
func (e *Engine) CacheTreeJSON() (string, error) {
	return textOf(&e.handle, 4096, swig.Prefix_cache_tree_json)
}
