/**
 * Runs transformer language models inside your own process, over shared prefixes: what requests have in common at
 * their beginning is computed once, within a batch, between running batches, and from the cache.
 *
 * <p>An {@link io.prefix.Engine} is one model with its cache; a {@link io.prefix.Batch} collects {@link
 * io.prefix.Request requests}; {@link io.prefix.Engine#run} computes them, and {@link io.prefix.Job#allValues()}
 * returns their numbers in one call. A {@link io.prefix.Tokenizer} makes tokens from text and text from tokens; {@link
 * io.prefix.Tasks} takes text and returns scores, vectors and texts.
 *
 * <p>Everything may be used from many threads. Close engines, batches, jobs, tokenizers and tasks; a cleaner frees what
 * was forgotten, but the garbage collector does not see how large native memory is. Using a closed object is an
 * IllegalStateException; every failure of the library is a {@link io.prefix.PrefixException}.
 */
package io.prefix;
