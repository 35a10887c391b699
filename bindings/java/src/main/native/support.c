#include "support.h"

#include <stdio.h>
#include <string.h>

static jclass array_classes[4];
static jclass buffer_classes[4];
static jclass exception_class;
static jmethodID exception_factory;

static jclass global_class(JNIEnv* env, const char* name) {
  jclass local = (*env)->FindClass(env, name);
  jclass global = local ? (*env)->NewGlobalRef(env, local) : NULL;
  if (local) (*env)->DeleteLocalRef(env, local);
  return global;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void* reserved) {
  static const char* const arrays[] = {"[B", "[I", "[J", "[F"};
  static const char* const buffers[] = {"java/nio/ByteBuffer", "java/nio/IntBuffer", "java/nio/LongBuffer",
                                        "java/nio/FloatBuffer"};
  JNIEnv* env;
  int i;
  (void)reserved;
  if ((*vm)->GetEnv(vm, (void**)&env, JNI_VERSION_1_8) != JNI_OK) return JNI_ERR;
  for (i = 0; i < 4; ++i) {
    array_classes[i] = global_class(env, arrays[i]);
    buffer_classes[i] = array_classes[i] ? global_class(env, buffers[i]) : NULL;
    if (!buffer_classes[i]) return JNI_ERR;
  }
  exception_class = global_class(env, "io/prefix/PrefixException");
  if (!exception_class) return JNI_ERR;
  exception_factory =
      (*env)->GetStaticMethodID(env, exception_class, "of", "(I[B[B)Lio/prefix/PrefixException;");
  return exception_factory ? JNI_VERSION_1_8 : JNI_ERR;
}

static void illegal_argument(JNIEnv* env, const char* message) {
  jclass type = (*env)->FindClass(env, "java/lang/IllegalArgumentException");
  if (type) (*env)->ThrowNew(env, type, message);
}

int prefix_java_open(JNIEnv* env, jobject object, int kind, prefix_java_view* view) {
  memset(view, 0, sizeof *view);
  view->kind = kind;
  if (!object) return 1;
  if ((*env)->IsInstanceOf(env, object, array_classes[kind])) {
    view->array = (jarray)object;
    view->count = (size_t)(*env)->GetArrayLength(env, view->array);
    switch (kind) {
      case PREFIX_JAVA_BYTE:
        view->start = (*env)->GetByteArrayElements(env, (jbyteArray)object, NULL);
        break;
      case PREFIX_JAVA_INT:
        view->start = (*env)->GetIntArrayElements(env, (jintArray)object, NULL);
        break;
      case PREFIX_JAVA_LONG:
        view->start = (*env)->GetLongArrayElements(env, (jlongArray)object, NULL);
        break;
      default:
        view->start = (*env)->GetFloatArrayElements(env, (jfloatArray)object, NULL);
    }
    return view->start != NULL; /* NULL: an OutOfMemoryError is pending */
  }
  if ((*env)->IsInstanceOf(env, object, buffer_classes[kind])) {
    view->start = (*env)->GetDirectBufferAddress(env, object);
    view->count = (size_t)(*env)->GetDirectBufferCapacity(env, object);
    if (view->start || view->count == 0) return 1;
    illegal_argument(env, "the buffer is not direct");
    return 0;
  }
  illegal_argument(env, "neither an array nor a buffer of the right type");
  return 0;
}

int prefix_java_memory(JNIEnv* env, jobject object, prefix_java_view* view) {
  if (object && (*env)->IsInstanceOf(env, object, buffer_classes[PREFIX_JAVA_BYTE]))
    return prefix_java_open(env, object, PREFIX_JAVA_BYTE, view);
  illegal_argument(env, "no direct buffer of bytes");
  return 0;
}

void prefix_java_close(JNIEnv* env, const prefix_java_view* view, jint mode) {
  if (!view->array || !view->start) return;
  switch (view->kind) {
    case PREFIX_JAVA_BYTE:
      (*env)->ReleaseByteArrayElements(env, (jbyteArray)view->array, view->start, mode);
      break;
    case PREFIX_JAVA_INT:
      (*env)->ReleaseIntArrayElements(env, (jintArray)view->array, view->start, mode);
      break;
    case PREFIX_JAVA_LONG:
      (*env)->ReleaseLongArrayElements(env, (jlongArray)view->array, view->start, mode);
      break;
    default:
      (*env)->ReleaseFloatArrayElements(env, (jfloatArray)view->array, view->start, mode);
  }
}

void prefix_java_store(JNIEnv* env, jbyteArray array, const void* start, size_t size) {
  size_t room = (size_t)(*env)->GetArrayLength(env, array);
  (*env)->SetByteArrayRegion(env, array, 0, (jsize)(room < size ? room : size), start);
}

/* Model text is UTF-8, and NewStringUTF is not. */
static jbyteArray bytes_of(JNIEnv* env, const char* text) {
  jsize length = (jsize)strlen(text);
  jbyteArray array = (*env)->NewByteArray(env, length);
  if (array) (*env)->SetByteArrayRegion(env, array, 0, length, (const jbyte*)text);
  return array;
}

void prefix_java_throw(JNIEnv* env, prefix_status status, const prefix_error* error) {
  jbyteArray domain = bytes_of(env, error->domain);
  jbyteArray message = domain ? bytes_of(env, error->message) : NULL;
  jobject exception =
      message
          ? (*env)->CallStaticObjectMethod(env, exception_class, exception_factory, (jint)status, domain, message)
          : NULL;
  if (!(*env)->ExceptionCheck(env) && exception) (*env)->Throw(env, (jthrowable)exception);
}

void prefix_java_negative(JNIEnv* env, const char* function, const char* parameter, jlong number) {
  prefix_error error = PREFIX_ERROR_INIT;
  snprintf(error.domain, sizeof error.domain, "%s", function);
  snprintf(error.message, sizeof error.message, "%s is %lld; at least 0", parameter, (long long)number);
  prefix_java_throw(env, PREFIX_ERR_OUT_OF_RANGE, &error);
}

void prefix_java_no_memory(JNIEnv* env, size_t texts) {
  prefix_error error = PREFIX_ERROR_INIT;
  snprintf(error.message, sizeof error.message, "there is no memory for %zu texts", texts);
  prefix_java_throw(env, PREFIX_ERR_OUT_OF_MEMORY, &error);
}

/* Static texts, whose addresses stand in structs. */
JNIEXPORT jbyteArray JNICALL Java_io_prefix_internal_Struct_text(JNIEnv* env, jclass type, jlong address) {
  (void)type;
  return bytes_of(env, (const char*)(intptr_t)address);
}
