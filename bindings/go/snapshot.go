package prefix

import "prefix.io/prefix/internal/swig"

// SnapshotInfo is what was saved or loaded.
type SnapshotInfo struct {
	Namespaces, Nodes, Tokens int64
	States                    int64 // of recurrent layers
	Bytes                     int64 // saved: of the file
	SkippedTokens             int64 // loaded: for which there was no room, or that were damaged
}

func snapshot(function func(raw *swig.SnapshotInfo) error) (SnapshotInfo, error) {
	raw := swig.SnapshotInfo{StructSize: swig.SizeofSnapshotInfo}
	err := function(&raw)
	return SnapshotInfo{raw.Namespaces, raw.Nodes, raw.Tokens, raw.States, raw.Bytes, raw.SkippedTokens}, err
}

// SaveSnapshot saves what these namespaces (none given: all) have in the cache, so that a later process starts warm.
// The engine goes on meanwhile, and the file appears when it is complete. [ErrNotFound]: a namespace that was never
// opened. [ErrIO]. [ErrInvalidArgument]: a folder, a device or a pipe has that name. [ErrMisuse]: another save to the
// same path runs, or the engine shares nothing.
func (e *Engine) SaveSnapshot(path string, namespaces ...Namespace) (SnapshotInfo, error) {
	ids := make([]int32, len(namespaces))
	for i, namespace := range namespaces {
		ids[i] = int32(namespace)
	}
	return snapshot(func(raw *swig.SnapshotInfo) error {
		return callOn(&e.handle, func(h uintptr, f *swig.Error) int32 {
			return swig.Prefix_snapshot_save(h, path, ids, raw, f)
		})
	})
}

// LoadSnapshot loads a snapshot beside what is in the cache, without evicting anything: it begins with what was used
// last, and ends when the cache is full. Every page is checked; what is damaged is left out. [ErrNotFound], [ErrIO].
// [ErrFormat]: a damaged file. [ErrIncompatibleSnapshot]: one of another model, number type, device or instruction-set
// level; nothing is loaded then.
func (e *Engine) LoadSnapshot(path string) (SnapshotInfo, error) {
	return snapshot(func(raw *swig.SnapshotInfo) error {
		return callOn(&e.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_snapshot_load(h, path, raw, f) })
	})
}
