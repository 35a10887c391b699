/* One interface file for every language that SWIG serves: bindings/swig/generate runs it.
 *
 * shapes_go.i and shapes_java.i say once how each shape of parameter looks in a language. parameters.i,
 * which generate writes from the headers, says which parameters have which shape. Nothing here names a
 * single function, so a new function of the headers needs no work as long as it keeps to the shapes. */
%module native

%{
#include <stdint.h>
#include <string.h>

#include "prefix.h"
#include "prefix_text.h"
%}

/* The values of the enums come from generate, as real constants of the language. */
%rename("$ignore", %$isenum) "";
%rename("$ignore", %$isenumitem) "";
%rename("$ignore", %$isconstant) "";

/* Structs travel as memory with the layout of C, handles as numbers: no proxy classes. */
%rename("$ignore", %$isclass) "";

/* int32_t, int64_t: their typemaps go by these names; SWIG must not look through to a type of C that may differ. */

#if defined(SWIGGO)
%include "shapes_go.i"
#elif defined(SWIGJAVA)
%include "shapes_java.i"
#endif

%include "parameters.i"
%include "prefix.h"
%include "prefix_text.h"
