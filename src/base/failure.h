// What an exception is to those who get no exceptions: a code and a sentence.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "base/status.h"

namespace prefix {

// Calls take(code, sentence) for the exception that is being handled; only inside a catch block.
// The sentence is valid during the call.
template <typename Take>
void tell_failure(const Take& take) {
  try {
    throw;
  } catch (const Error& e) {
    take(e.code(), std::string_view(e.message()));
  } catch (const std::bad_alloc&) {
    take(Code::kOutOfMemory, std::string_view("out of host memory"));
  } catch (const std::system_error& e) {  // a thread that the system did not give
    const bool scarce = e.code() == std::errc::resource_unavailable_try_again ||
                        e.code() == std::errc::not_enough_memory;
    if (scarce)  // in words that take no memory
      take(Code::kOutOfMemory, std::string_view("the system gave this process no further thread"));
    else
      take(Code::kInternal, std::string_view(e.what()));
  } catch (const std::exception& e) {
    take(Code::kInternal, std::string_view(e.what()));
  } catch (...) {
    take(Code::kInternal, std::string_view("an unknown exception"));
  }
}

}  // namespace prefix
