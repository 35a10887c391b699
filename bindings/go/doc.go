// Package prefix runs transformer language models inside your own process, over shared prefixes.
//
// What requests have in common at their beginning is computed once, within a batch, between running batches, and
// from the cache. An [Engine] is one model with its cache; a [Batch] collects requests; [Engine.Run] computes them
// and [Job.AllValues] returns their numbers in one call. [Tokenizer] makes tokens from text and text from tokens,
// and [Rerank], [Embed], [Classify], [Answer], [Complete] and [Chat] take text and return scores, vectors and texts; a
// [Task] does so step by step.
//
// # Threads
//
// Everything may be used from many goroutines at once. Runs of several goroutines share steps and prefixes. A
// [Batch] and a [Detokenizer] take one caller at a time; others wait.
//
// # Closing
//
// Engines, batches, jobs, tokenizers and tasks hold native memory: Close them. Closing twice is fine, and the order
// does not matter, since what depends on an engine keeps it alive. Using a closed value gives [ErrClosed]. What was
// never closed is freed some time after the garbage collector finds it unused, but for a [Lease], which holds a prefix
// until its time, or the engine, ends.
//
// # Errors
//
// Every failure of the library is an [*Error] with a sentence; [errors.Is] tells which:
//
//	if errors.Is(err, prefix.ErrQueueFull) { ... }
package prefix
