//! `json!`, as in `serde_json`.

/// Make a value as it is written: `json!({"tool_name": "Bash", "n": [1, null]})`.
#[macro_export]
macro_rules! json {
    (null) => { $crate::Value::Null };
    ([ $($inner:tt)* ]) => { $crate::json_list!([] $($inner)*) };
    ({ $($inner:tt)* }) => {{
        #[allow(unused_mut)]
        let mut members = ::std::collections::BTreeMap::new();
        $crate::json_members!(members $($inner)*);
        $crate::Value::Object(members)
    }};
    ($value:expr) => { $crate::Value::from($value) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! json_list {
    ([$($done:expr,)*]) => { $crate::Value::Array(::std::vec![$($done),*]) };
    ([$($done:expr,)*] null $(, $($rest:tt)*)?) => { $crate::json_list!([$($done,)* $crate::Value::Null,] $($($rest)*)?) };
    ([$($done:expr,)*] [ $($inner:tt)* ] $(, $($rest:tt)*)?) => { $crate::json_list!([$($done,)* $crate::json!([$($inner)*]),] $($($rest)*)?) };
    ([$($done:expr,)*] { $($inner:tt)* } $(, $($rest:tt)*)?) => { $crate::json_list!([$($done,)* $crate::json!({$($inner)*}),] $($($rest)*)?) };
    ([$($done:expr,)*] $next:expr $(, $($rest:tt)*)?) => { $crate::json_list!([$($done,)* $crate::json!($next),] $($($rest)*)?) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! json_members {
    ($members:ident) => {};
    ($members:ident $key:tt : null $(, $($rest:tt)*)?) => { $members.insert(($key).to_string(), $crate::Value::Null); $crate::json_members!($members $($($rest)*)?); };
    ($members:ident $key:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => { $members.insert(($key).to_string(), $crate::json!([$($inner)*])); $crate::json_members!($members $($($rest)*)?); };
    ($members:ident $key:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => { $members.insert(($key).to_string(), $crate::json!({$($inner)*})); $crate::json_members!($members $($($rest)*)?); };
    ($members:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => { $members.insert(($key).to_string(), $crate::json!($value)); $crate::json_members!($members $($($rest)*)?); };
}
