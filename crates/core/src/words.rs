//! Enums whose variants are words elsewhere: in SQL, in JSON, in what a function shows.

/// Declares such an enum, with `ALL` its variants in their order, with `as_str`, and with `of` for the variant of
/// a word.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $visibility:vis enum $name:ident {
        $($(#[$meta:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name { $($(#[$meta])* $variant,)* }

        #[allow(dead_code)]
        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The variant of a word, `None` if there is none.
            #[must_use]
            pub fn of(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    words! {
        /// For the test.
        enum Direction {
            Up = "up",
            /// Not up.
            Down = "to the ground",
        }
    }

    #[test]
    fn words_lead_there_and_back() {
        assert_eq!(Direction::ALL, [Direction::Up, Direction::Down]);
        for &direction in Direction::ALL {
            assert_eq!(Direction::of(direction.as_str()), Some(direction));
        }
        assert_eq!(Direction::Down.as_str(), "to the ground");
        assert_eq!(Direction::of("Up"), None);
    }
}
