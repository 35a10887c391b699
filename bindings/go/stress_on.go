//go:build prefix_gcstress

package prefix

import "runtime"

// stress collects garbage in every call, which finds what is freed too early.
func stress() { runtime.GC() }
