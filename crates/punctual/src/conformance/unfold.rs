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

/// See [`conformance::suite`](crate::conformance::suite).
#[doc(hidden)]
#[macro_export]
macro_rules! __suite {
    ($harness:expr $(,)?) => {
        $crate::__laws!(__unfold $harness);
        $crate::__flow_laws!(__unfold $harness);
        $crate::__step_laws!(__unfold $harness);
        $crate::__share_laws!(__unfold $harness);
        $crate::__named_laws!(__unfold $harness);
        $crate::__topic_laws!(__unfold $harness);
        $crate::__clear_laws!(__unfold $harness);
    };
    ($harness:expr, durable) => {
        $crate::__laws!(__unfold $harness);
        $crate::__flow_laws!(__unfold $harness);
        $crate::__step_laws!(__unfold $harness);
        $crate::__share_laws!(__unfold $harness);
        $crate::__named_laws!(__unfold $harness);
        $crate::__topic_laws!(__unfold $harness);
        $crate::__clear_laws!(__unfold $harness);
        $crate::__durable_laws!(__unfold $harness);
    };
}
