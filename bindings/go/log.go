package prefix

import (
	"context"
	"log/slog"
	"time"

	"prefix.io/prefix/internal/swig"
)

// SetLogLevel drops messages of the library below a level. The default is [slog.LevelWarn]; a level above
// [slog.LevelError] drops all.
func SetLogLevel(level slog.Level) {
	switch {
	case level <= slog.LevelDebug:
		swig.Prefix_set_log_level(swig.PREFIX_LOG_DEBUG)
	case level <= slog.LevelInfo:
		swig.Prefix_set_log_level(swig.PREFIX_LOG_INFO)
	case level <= slog.LevelWarn:
		swig.Prefix_set_log_level(swig.PREFIX_LOG_WARNING)
	case level <= slog.LevelError:
		swig.Prefix_set_log_level(swig.PREFIX_LOG_ERROR)
	default:
		swig.Prefix_set_log_level(swig.PREFIX_LOG_OFF)
	}
}

var levels = map[int32]slog.Level{
	swig.PREFIX_LOG_DEBUG:   slog.LevelDebug,
	swig.PREFIX_LOG_INFO:    slog.LevelInfo,
	swig.PREFIX_LOG_WARNING: slog.LevelWarn,
	swig.PREFIX_LOG_ERROR:   slog.LevelError,
}

// NextLog takes the oldest message that the library keeps (the last 1,024). [ErrNoEvent] when there is none.
func NextLog() (slog.Level, string, error) {
	var level int32
	text, err := getText(1024, func(b []byte, needed *uintptr, _ *swig.Error) int32 {
		return swig.Prefix_log_next(&level, b, needed)
	})
	if isStatus(err, ErrNoEvent) {
		err = ErrNoEvent
	}
	return levels[level], text, err
}

// ForwardLog hands the messages of the library to a logger until ctx ends, the last ones then too, and returns: it is for
// a goroutine of its own.
func ForwardLog(ctx context.Context, logger *slog.Logger) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		over := ctx.Err() != nil
		for level, text, err := NextLog(); err == nil; level, text, err = NextLog() {
			logger.Log(context.WithoutCancel(ctx), level, text)
		}
		if over {
			return
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
