//! A closed list of names that can be counted.

/// Declares a field-less enum together with the list of all its values and their names in text.
///
/// Drivers count messages and notes by kind; a test run in which some kind never occurs is a hole in that test, so
/// the full list must be at hand.
macro_rules! kinds {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every value, in order; the position is `self as usize`.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Returns the name used in traces, counters and reports.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }
    };
}

pub(crate) use kinds;
