/* Go: each shape of parameter as a Go type. See README.md for the table.
 *
 * The C side receives pointers into Go memory that holds no Go pointers and keeps none of them but MEMORY,
 * which is pinned: what the rules of cgo ask for. Structs are the types of structs.go, which have the layout of C by
 * construction. */

/* ---- Numbers ---- */

%typemap(gotype) int32_t, prefix_token, prefix_status "int32"
%typemap(gotype) int64_t "int64"
%typemap(gotype) size_t "uintptr"
%typemap(in) int32_t, prefix_token, prefix_status, int64_t, size_t "$1 = ($1_ltype)$input;"
%typemap(out) int32_t, prefix_token, prefix_status, int64_t, size_t "$result = $1;"

/* ---- Text and arrays in ---- */

/* The bytes of the string itself; C gets NULL for "". */
%typemap(gotype) (const char* TEXT, size_t TEXT_LEN) "string"
%typemap(in) (const char* TEXT, size_t TEXT_LEN) "$1 = ($1_ltype)$input.p; $2 = ($2_ltype)$input.n;"
%typemap(freearg) (const char* TEXT, size_t TEXT_LEN) ""

%define %prefix_slice(TYPE, GOTYPE, DATA, COUNT)
%typemap(gotype) (TYPE DATA, size_t COUNT) "[]GOTYPE"
%typemap(in) (TYPE DATA, size_t COUNT) "$1 = ($1_ltype)$input.array; $2 = ($2_ltype)$input.len;"
%typemap(freearg) (TYPE DATA, size_t COUNT) ""
%enddef

%prefix_slice(const int32_t*, int32, INTS, COUNT)
%prefix_slice(const int64_t*, int64, LONGS, COUNT)
/* C keeps it: whoever calls has pinned it. */
%prefix_slice(const void*, byte, MEMORY, SIZE)

/* Packed as prefix.i draws it. */
%typemap(gotype) (const char* const* TEXTS, const size_t* LENGTHS, size_t COUNT) "[]byte"
%typemap(in) (const char* const* TEXTS, const size_t* LENGTHS, size_t COUNT) (prefix_text_list list = PREFIX_NO_TEXTS) {
  if (!prefix_open_texts($input.array, (size_t)$input.len, &list)) {
    $cleanup
    return PREFIX_ERR_OUT_OF_MEMORY;
  }
  $1 = ($1_ltype)list.texts;
  $2 = list.lengths;
  $3 = list.count;
}
%typemap(freearg) (const char* const* TEXTS, const size_t* LENGTHS, size_t COUNT) "free((void*)list$argnum.texts);"

/* ---- Arrays out ---- */

%prefix_slice(char*, byte, OUT_BYTES, CAPACITY)
%prefix_slice(int32_t*, int32, OUT_INTS, CAPACITY)
%prefix_slice(int64_t*, int64, OUT_LONGS, CAPACITY)
%prefix_slice(float*, float32, OUT_FLOATS, CAPACITY)

/* ---- Single values out, handles, structs: pointers ---- */

%define %prefix_pointer(TYPE, GOTYPE)
%typemap(gotype) TYPE "GOTYPE"
%typemap(in) TYPE "$1 = ($1_ltype)$input;"
%typemap(freearg) TYPE ""
%enddef

/* RESULT: the one value of a function; SLOT: one of several. */
%prefix_pointer(int32_t* RESULT, *int32)
%prefix_pointer(int32_t* SLOT, *int32)
%prefix_pointer(int64_t* RESULT, *int64)
%prefix_pointer(int64_t* SLOT, *int64)
%prefix_pointer(size_t* RESULT, *uintptr)
%prefix_pointer(size_t* SLOT, *uintptr)
%prefix_pointer(double* SLOT, *float64)

%define %prefix_handle(NAME)
%prefix_pointer(NAME*, uintptr)
%prefix_pointer(const NAME*, uintptr)
%prefix_pointer(NAME**, *uintptr)
%enddef

%define %prefix_struct(NAME, GONAME)
%prefix_pointer(NAME*, *GONAME)
%enddef

%define %prefix_poll(FUNCTION)
%enddef

%prefix_struct(prefix_error, Error)
