//! One list of functions, two ways to reach them: `functions!` makes either an `extern` block or, with the
//! feature `dynamic`, a table of pointers and functions of the same names that call through it.

macro_rules! functions {
    ($(
        $(#[$meta:meta])*
        pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        #[cfg(not(feature = "dynamic"))]
        unsafe extern "C" {
            $( $(#[$meta])* pub fn $name($($argument: $type),*) $(-> $result)?; )*
        }

        /// The names of all functions of the header, in its order.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        #[cfg(feature = "dynamic")]
        pub(crate) struct Table {
            $( $name: unsafe extern "C" fn($($type),*) $(-> $result)?, )*
        }

        #[cfg(feature = "dynamic")]
        impl crate::dynamic::Resolve for Table {
            fn resolve(
                mut symbol: impl FnMut(&'static str) -> Result<*mut ::core::ffi::c_void, crate::dynamic::LoadError>,
            ) -> Result<Self, crate::dynamic::LoadError> {
                Ok(Table {
                    // Safety: the library says that it has this function of the header.
                    $( $name: unsafe {
                        ::core::mem::transmute::<
                            *mut ::core::ffi::c_void,
                            unsafe extern "C" fn($($type),*) $(-> $result)?,
                        >(symbol(stringify!($name))?)
                    }, )*
                })
            }
        }

        #[cfg(feature = "dynamic")]
        pub(crate) static TABLE: ::std::sync::OnceLock<Table> = ::std::sync::OnceLock::new();

        $(
            #[cfg(feature = "dynamic")]
            $(#[$meta])*
            #[inline]
            #[allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
            pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
                match TABLE.get() {
                    // Safety: that of the function itself.
                    Some(table) => unsafe { (table.$name)($($argument),*) },
                    None => crate::dynamic::not_loaded(stringify!($name)),
                }
            }
        )*
    };
}
