//! What is made of a list of laws: the table that is run, and one test of each law.

/// Makes the table of a list of laws.
#[doc(hidden)]
#[macro_export]
macro_rules! __table {
    ({} $($topic:ident { $($law:ident $([$($needs:ident),+])?,)+ })+) => {
        &[$($(
            Law {
                name: concat!(stringify!($topic), "::", stringify!($law)),
                needs: &[$($(Capability::$needs),+)?],
                run: |case| super::$topic::$law(case).boxed(),
            },
        )+)+]
    };
}

/// Makes one test of each law of a list.
#[doc(hidden)]
#[macro_export]
macro_rules! __unfold {
    ({$harness:expr} $($topic:ident { $($law:ident $([$($needs:ident),+])?,)+ })+) => {$(
        mod $topic {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $law() {
                    let name = concat!(stringify!($topic), "::", stringify!($law));
                    $crate::conformance::check(name, $harness);
                }
            )+
        }
    )+};
}

/// Makes one test of each topic of a list.
#[doc(hidden)]
#[macro_export]
macro_rules! __unfold_topics {
    ({$harness:expr} $($topic:ident { $($law:ident $([$($needs:ident),+])?,)+ })+) => {$(
        mod $topic {
            #[allow(unused_imports)]
            use super::*;

            #[test]
            fn every_law_holds() {
                $crate::conformance::check_topic(stringify!($topic), $harness);
            }
        }
    )+};
}

/// Makes two tests of each topic of a list: one of every third law, and one of all.
#[doc(hidden)]
#[macro_export]
macro_rules! __unfold_thirds {
    ({$harness:expr} $($topic:ident { $($law:ident $([$($needs:ident),+])?,)+ })+) => {$(
        mod $topic {
            #[allow(unused_imports)]
            use super::*;

            #[test]
            fn every_third_law_holds() {
                $crate::conformance::check_some(stringify!($topic), 3, $harness);
            }

            #[test]
            fn every_law_holds() {
                $crate::conformance::check_topic(stringify!($topic), $harness);
            }
        }
    )+};
}

/// See [`conformance::suite`](crate::conformance::suite).
#[doc(hidden)]
#[macro_export]
macro_rules! __suite {
    ($harness:expr $(,)?) => {
        $crate::__all_laws!(__unfold $harness);
    };
    ($harness:expr, durable) => {
        $crate::__all_laws!(__unfold $harness);
        $crate::__durable_laws!(__unfold $harness);
    };
    ($harness:expr, by topic) => {
        $crate::__all_laws!(__unfold_topics $harness);
    };
    ($harness:expr, by topic, thirds) => {
        $crate::__all_laws!(__unfold_thirds $harness);
    };
    ($harness:expr, durable, by topic) => {
        $crate::__all_laws!(__unfold_topics $harness);
        $crate::__durable_laws!(__unfold_topics $harness);
    };
}

/// Hands the lists of the laws of every engine to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __all_laws {
    ($then:ident $harness:expr) => {
        $crate::__laws!($then $harness);
        $crate::__flow_laws!($then $harness);
        $crate::__step_laws!($then $harness);
        $crate::__share_laws!($then $harness);
        $crate::__named_laws!($then $harness);
        $crate::__topic_laws!($then $harness);
        $crate::__clear_laws!($then $harness);
    };
}
