//go:build race

package prefix_test

const raceDetector = true
