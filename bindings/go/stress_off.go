//go:build !prefix_gcstress

package prefix

func stress() {}
