//! `/v1/claims`, `/v1/extensions`, `/v1/settlements`: work for any language.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::auth::{Allowed, Working};
use crate::http::{ErrorAnswer, Result};
use crate::json::lease::{
    ClaimAnswer, ClaimRequest, ExtendAnswer, ExtendRequest, SettleAnswer, SettleRequest,
};
use crate::request::{Answer, Read};
use crate::service::{claim_for, extend_for, settle_for};
use crate::shared::Shared;

/// Claims due jobs under a lease; waits for one on request
#[utoipa::path(
    post, path = "/v1/claims", tag = "work", request_body = ClaimRequest,
    responses((status = 200, body = ClaimAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn claim(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Working>,
    Read(request): Read<ClaimRequest>,
) -> Result<Response> {
    let (answer, undelivered) = claim_for(&shared, &caller, request).await?;
    let answer = Json(answer).into_response();
    Ok(match undelivered {
        Some(undelivered) => undelivered.along(answer),
        None => answer,
    })
}

/// Extends leases, carries progress
#[utoipa::path(
    post, path = "/v1/extensions", tag = "work", request_body = ExtendRequest,
    responses((status = 200, body = ExtendAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn extend(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Working>,
    Read(request): Read<ExtendRequest>,
) -> Answer<ExtendAnswer> {
    extend_for(&shared, &caller, request).await.map(Json)
}

/// Settles jobs: how their attempts ended, and their effects
#[utoipa::path(
    post, path = "/v1/settlements", tag = "work", request_body = SettleRequest,
    responses((status = 200, body = SettleAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn settle(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Working>,
    Read(request): Read<SettleRequest>,
) -> Answer<SettleAnswer> {
    settle_for(&shared, &caller, request).await.map(Json)
}

#[cfg(test)]
mod tests;
