/* Java: each shape of parameter as a JNI type. See README.md for the table.
 *
 * Every function that returns a status returns a long: the one value it has (a handle, the size needed, an
 * index), or 0. A failure throws PrefixException. Functions that wait return the negative status when there is
 * nothing yet. Where a buffer is too small nothing is thrown: the size needed tells. Arrays are Java arrays of
 * the type or direct buffers; null is NULL with size 0. */

%{
#include "layout.h"
#include "support.h"
%}

%pragma(java) jniclassclassmodifiers="final class"
%pragma(java) moduleclassmodifiers="public final class"
%pragma(java) jniclasscode=%{
  static {
    Loader.load();
  }
%}

%define %prefix_java(TYPE, JNITYPE, JAVATYPE)
%typemap(jni) TYPE "JNITYPE"
%typemap(jtype) TYPE "JAVATYPE"
%typemap(jstype) TYPE "JAVATYPE"
%typemap(javain) TYPE "$javainput"
%enddef

/* ---- Numbers ---- */

%define %prefix_number(TYPE, JNITYPE, JAVATYPE)
%prefix_java(TYPE, JNITYPE, JAVATYPE)
%typemap(javaout) TYPE "{ return $jnicall; }"
%typemap(in) TYPE "$1 = ($1_ltype)$input;"
%typemap(out) TYPE "$result = (JNITYPE)$1;"
%enddef

%prefix_number(int32_t, jint, int)
%prefix_number(prefix_token, jint, int)
%prefix_number(int64_t, jlong, long)
%prefix_number(size_t, jlong, long)

/* What is below 0 would be an enormous number in C, which the library's sentence would name. */
%typemap(in) size_t {
  if ($input < 0) {
    prefix_java_negative(jenv, "$symname", "$1_name", $input);
    $cleanup
    return $null;
  }
  $1 = ($1_ltype)$input;
}

/* A status that a function returns is an exception or nothing; the long is for the one value that it has. */
%prefix_java(prefix_status, jlong, long)
%typemap(javaout) prefix_status "{ return $jnicall; }"
%typemap(in) prefix_status "$1 = ($1_ltype)$input;"
%typemap(out) prefix_status "$result = 0;"

%define %prefix_poll(FUNCTION)
%typemap(out) prefix_status FUNCTION "$result = $1 == PREFIX_ERR_BUFFER_TOO_SMALL ? 0 : -(jlong)$1;"
%enddef

%typemap(in, numinputs=0) prefix_error* (prefix_error error = PREFIX_ERROR_INIT) "$1 = &error;"
%typemap(argout) prefix_error* %{
  if (result != PREFIX_OK && result != PREFIX_ERR_BUFFER_TOO_SMALL &&
      !(jresult < 0 && (result == PREFIX_ERR_TIMEOUT || result == PREFIX_ERR_NO_EVENT)))
    prefix_java_throw(jenv, result, $1);
%}

/* ---- Text and arrays ---- */

%define %prefix_view(TYPE, KIND, MODE, DATA, COUNT)
%prefix_java((TYPE DATA, size_t COUNT), jobject, Object)
%typemap(in) (TYPE DATA, size_t COUNT) (prefix_java_view view = PREFIX_JAVA_NO_VIEW) {
  if (!prefix_java_open(jenv, $input, KIND, &view)) {
    $cleanup
    return $null;
  }
  $1 = ($1_ltype)view.start;
  $2 = view.count;
}
%typemap(freearg) (TYPE DATA, size_t COUNT) "prefix_java_close(jenv, &view$argnum, MODE);"
%enddef

%prefix_view(const char*, PREFIX_JAVA_BYTE, JNI_ABORT, TEXT, TEXT_LEN)
%prefix_view(const int32_t*, PREFIX_JAVA_INT, JNI_ABORT, INTS, COUNT)
%prefix_view(const int64_t*, PREFIX_JAVA_LONG, JNI_ABORT, LONGS, COUNT)
%prefix_view(char*, PREFIX_JAVA_BYTE, 0, OUT_BYTES, CAPACITY)
%prefix_view(int32_t*, PREFIX_JAVA_INT, 0, OUT_INTS, CAPACITY)
%prefix_view(int64_t*, PREFIX_JAVA_LONG, 0, OUT_LONGS, CAPACITY)
%prefix_view(float*, PREFIX_JAVA_FLOAT, 0, OUT_FLOATS, CAPACITY)

/* C keeps it: only memory that is never moved. */
%prefix_java((const void* MEMORY, size_t SIZE), jobject, Object)
%typemap(in) (const void* MEMORY, size_t SIZE) (prefix_java_view view = PREFIX_JAVA_NO_VIEW) {
  if (!prefix_java_memory(jenv, $input, &view)) {
    $cleanup
    return $null;
  }
  $1 = view.start;
  $2 = view.count;
}
%typemap(freearg) (const void* MEMORY, size_t SIZE) ""

/* Packed as prefix.i draws it. */
%prefix_java((const char* const* TEXTS, const size_t* LENGTHS, size_t COUNT), jobject, Object)
%typemap(in) (const char* const* TEXTS, const size_t* LENGTHS, size_t COUNT)
    (prefix_java_view view = PREFIX_JAVA_NO_VIEW, prefix_text_list list = PREFIX_NO_TEXTS) {
  if (!prefix_java_open(jenv, $input, PREFIX_JAVA_BYTE, &view)) {
    $cleanup
    return $null;
  }
  if (!prefix_open_texts(view.start, view.count, &list)) {
    prefix_java_no_memory(jenv, list.count);
    $cleanup
    return $null;
  }
  $1 = ($1_ltype)list.texts;
  $2 = list.lengths;
  $3 = list.count;
}
%typemap(freearg) (const char* const* TEXTS, const size_t* LENGTHS, size_t COUNT) %{
  free((void*)list$argnum.texts);
  prefix_java_close(jenv, &view$argnum, JNI_ABORT);
%}

/* ---- Single values out ---- */

%define %prefix_result(TYPE)
%typemap(in, numinputs=0) TYPE* RESULT (TYPE value = 0) "$1 = &value;"
%typemap(argout) TYPE* RESULT "if (jresult == 0) $result = (jlong)*$1;"
%prefix_java(TYPE* SLOT, jlongArray, long[])
%typemap(in) TYPE* SLOT (TYPE value = 0) "$1 = &value;"
%typemap(argout) TYPE* SLOT {
  jlong number = (jlong)*$1;
  if (result == PREFIX_OK) (*jenv)->SetLongArrayRegion(jenv, $input, 0, 1, &number);
}
%enddef

%prefix_result(int32_t)
%prefix_result(int64_t)
%prefix_result(size_t)

/* How far a wait has come; that it goes on is no reason not to tell. */
%prefix_java(double* SLOT, jdoubleArray, double[])
%typemap(in) double* SLOT (jdouble value = 0) "$1 = &value;"
%typemap(argout) double* SLOT {
  if ($input && (result == PREFIX_OK || result == PREFIX_ERR_TIMEOUT))
    (*jenv)->SetDoubleArrayRegion(jenv, $input, 0, 1, $1);
}

/* ---- Handles ---- */

%define %prefix_handle(NAME)
%prefix_java(NAME*, jlong, long)
%prefix_java(const NAME*, jlong, long)
%typemap(in) NAME*, const NAME* "$1 = ($1_ltype)(intptr_t)$input;"
%typemap(in, numinputs=0) NAME** (NAME* handle = 0) "$1 = &handle;"
%typemap(argout) NAME** "$result = (jlong)(intptr_t)*$1;"
%enddef

/* ---- Structs: memory with the layout of C ---- */

%define %prefix_struct(NAME, GONAME)
%prefix_java(NAME*, jbyteArray, byte[])
%typemap(in) NAME* (NAME value) {
  memset(&value, 0, sizeof value);
  value.struct_size = (int32_t)sizeof value;
  $1 = &value;
}
%typemap(argout) NAME* "if (result == PREFIX_OK) prefix_java_store(jenv, $input, $1, sizeof *$1);"
%enddef
