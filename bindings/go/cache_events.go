package prefix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"prefix.io/prefix/internal/swig"
)

// CacheEventKind is what a [CacheEvent] tells.
type CacheEventKind int32

// The kinds of cache events.
const (
	CacheStored  CacheEventKind = swig.PREFIX_CACHE_STORED  // the block is there; its parent was before
	CacheRemoved CacheEventKind = swig.PREFIX_CACHE_REMOVED // the block is gone; its parent goes later
	CacheCleared CacheEventKind = swig.PREFIX_CACHE_CLEARED // nothing is left in any namespace
)

func (k CacheEventKind) String() string {
	return nameOf(int32(k), "CacheEventKind", "stored", "removed", "cleared")
}

// CacheBlock is option cache_event_tokens of tokens of a path in the cache.
type CacheBlock struct {
	Block     int64     `json:"block"`  // its name, the same in every process with this model and namespace
	Parent    int64     `json:"parent"` // the block before it on its path; 0: it is the first one, or was removed
	Namespace Namespace `json:"namespace"`
	Position  int       `json:"position"` // of its first token
	Tokens    []Token   `json:"tokens"`   // nil when it was removed
}

// CacheEvent is something that happened to a block.
type CacheEvent struct {
	Kind CacheEventKind
	CacheBlock
	Sequence int64         // counts up without gaps
	Lost     int64         // events before this one that nobody read in time; with any, go on from a dump
	Time     time.Duration // on the library's monotonic clock
}

// NextCacheEvent gives the first event that is kept with a sequence number of at least from, 0 for the oldest.
// [ErrNoEvent]: there is none yet. [ErrMisuse]: the engine lacks the option cache_events.
func (e *Engine) NextCacheEvent(from int64) (CacheEvent, error) {
	raw := swig.CacheEvent{StructSize: swig.SizeofCacheEvent}
	tokens, err := arrayOf(&e.handle, 64, func(h uintptr, b []Token, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_cache_next_event(h, from, &raw, b, needed, f)
	})
	if err != nil {
		return CacheEvent{}, err
	}
	event := CacheEvent{
		Kind: CacheEventKind(raw.Kind), Sequence: raw.Sequence, Lost: raw.Sequence - from, Time: microseconds(raw.TimeUs),
		CacheBlock: CacheBlock{Block: raw.Block, Parent: raw.Parent, Namespace: Namespace(raw.Ns), Position: int(raw.Position)},
	}
	if event.Kind == CacheStored {
		event.Tokens = tokens
	}
	return event, nil
}

// CacheEvents yields the events that there are now, with sequence numbers of at least from. Ask again from the last
// Sequence + 1: at once after a busy time, after a pause when there was none. Any number of readers have their own place.
func (e *Engine) CacheEvents(from int64) iter.Seq2[CacheEvent, error] {
	return func(yield func(CacheEvent, error) bool) {
		for next := from; ; {
			event, err := e.NextCacheEvent(next)
			if isStatus(err, ErrNoEvent) || !yield(event, err) || err != nil {
				return
			}
			next = event.Sequence + 1
		}
	}
}

// CacheDump is all that is in memory.
type CacheDump struct {
	Blocks []CacheBlock // parents first
	Next   int64        // the sequence number from which events go on
}

// CacheDump lists the blocks that are in memory: where a reader of events begins, or begins again when it has lost some.
// [ErrMisuse]: the engine lacks the option cache_events.
func (e *Engine) CacheDump() (CacheDump, error) {
	text, err := arrayOf(&e.handle, 16384, swig.Prefix_cache_dump_events)
	if err != nil {
		return CacheDump{}, err
	}
	var dump CacheDump
	for lines := json.NewDecoder(bytes.NewReader(text)); ; {
		line := struct {
			CacheBlock
			Next *int64 `json:"next"`
		}{}
		if err := lines.Decode(&line); err == io.EOF {
			return dump, nil
		} else if err != nil {
			return CacheDump{}, fmt.Errorf("prefix: the dump of the cache: %w", err)
		}
		if line.Next != nil {
			dump.Next = *line.Next
		} else {
			dump.Blocks = append(dump.Blocks, line.CacheBlock)
		}
	}
}
