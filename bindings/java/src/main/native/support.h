/* What the generated native_wrap.c calls: views of Java arrays and direct buffers, and exceptions. */
#ifndef PREFIX_JAVA_SUPPORT_H
#define PREFIX_JAVA_SUPPORT_H

#include <jni.h>
#include <stddef.h>

#include "prefix.h"

enum { PREFIX_JAVA_BYTE, PREFIX_JAVA_INT, PREFIX_JAVA_LONG, PREFIX_JAVA_FLOAT };

typedef struct {
  void* start;
  size_t count; /* elements */
  jarray array; /* NULL for a buffer */
  int kind;
} prefix_java_view;
#define PREFIX_JAVA_NO_VIEW {NULL, 0, NULL, PREFIX_JAVA_BYTE}

/* 0 with a pending exception when the object is neither null, nor an array of the kind, nor a direct buffer of
 * it. */
int prefix_java_open(JNIEnv* env, jobject object, int kind, prefix_java_view* view);
/* 0 with a pending exception when the object is no direct buffer of bytes. */
int prefix_java_memory(JNIEnv* env, jobject object, prefix_java_view* view);
/* mode: 0 writes to the array, JNI_ABORT does not. May be called with a pending exception. */
void prefix_java_close(JNIEnv* env, const prefix_java_view* view, jint mode);
/* Copies a struct into an array, as much as fits. */
void prefix_java_store(JNIEnv* env, jbyteArray array, const void* start, size_t size);
/* Throws OUT_OF_RANGE for a parameter of a function that counts from 0. */
void prefix_java_negative(JNIEnv* env, const char* function, const char* parameter, jlong number);
/* Throws OUT_OF_MEMORY for so many texts. */
void prefix_java_no_memory(JNIEnv* env, size_t texts);
void prefix_java_throw(JNIEnv* env, prefix_status status, const prefix_error* error);

#endif
