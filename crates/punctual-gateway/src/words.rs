//! Schema names of texts with a form, for OpenAPI; the engine checks their values.
#![expect(dead_code, reason = "they only describe")]

use utoipa::ToSchema;

/// The name of a queue or a kind.
#[derive(ToSchema)]
#[schema(pattern = "^[A-Za-z0-9._:/-]{1,128}$", example = "mail")]
pub(crate) struct Name(String);

/// The id of a job. Requests may write it in upper case; answers have it in lower case.
#[derive(ToSchema)]
#[schema(format = "uuid", example = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a")]
pub(crate) struct Id(String);

/// A lease's token.
#[derive(ToSchema)]
#[schema(
    pattern = "^[0-9]{1,18}-[0-9a-f]{16}$",
    example = "42-00c0ffee00c0ffee"
)]
pub(crate) struct LeaseToken(String);

/// A number of 64 bits.
#[derive(ToSchema)]
#[schema(format = "uint64", minimum = 0)]
pub(crate) struct Count(u64);
