use expect_test::{Expect, expect};

use super::*;

/// One failure per line, `STATUS BODY` with `-` for no status, and its classification.
fn check(failures: &str, expect: Expect) {
    let mut printed = String::new();
    for line in failures.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (status, body) = line.split_once(' ').unwrap_or((line, ""));
        let failure = Failure { status: status.parse().ok(), body, after: None };
        let remedy = match failure.classify(String::new()) {
            ProviderError::Retry { .. } => "retry",
            ProviderError::Overflow { .. } => "overflow",
            ProviderError::Auth { .. } => "auth",
            ProviderError::Fatal { .. } => "fatal",
        };
        printed += &format!("{remedy:8} {line}\n");
    }
    expect.assert_eq(&printed);
}

#[test]
fn status_decides_first() {
    check(
        "
        400
        401
        402
        403
        404
        408
        409
        413 <html>Request Entity Too Large</html>
        422
        425
        429
        500
        502 <html>Bad Gateway</html>
        503
        520
        529
        301 moved
        ",
        expect![[r#"
            fatal    400
            auth     401
            auth     402
            auth     403
            fatal    404
            retry    408
            retry    409
            overflow 413 <html>Request Entity Too Large</html>
            fatal    422
            retry    425
            retry    429
            retry    500
            retry    502 <html>Bad Gateway</html>
            retry    503
            retry    520
            retry    529
            fatal    301 moved
        "#]],
    );
}

#[test]
fn anthropic() {
    check(
        r#"
        529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
        500 {"type":"error","error":{"type":"api_error","message":"Internal server error"}}
        429 {"type":"error","error":{"type":"rate_limit_error","message":"too many tokens per minute"}}
        401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}
        403 {"type":"error","error":{"type":"permission_error","message":"permission denied"}}
        402 {"type":"error","error":{"type":"billing_error","message":"pay first"}}
        404 {"type":"error","error":{"type":"not_found_error","message":"model not found"}}
        413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}
        400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}
        400 {"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000"}}
        400 {"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low. Go to Plans & Billing"}}
        400 {"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 1500 > 500, which is the maximum; see error 529"}}
        - {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
        - {"type":"error","error":{"type":"api_error","message":"Internal server error"}}
        - {"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}
        - {"type":"error","error":{"type":"invalid_request_error","message":"bad request, timeout must be a number"}}
        - {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}
        - {"type":"error","error":{"type":"authentication_error","message":"revoked"}}
        - {"type":"error","error":{"type":"brand_new_error","message":"the connection timed out"}}
        - {"type":"error","error":{"type":"brand_new_error","message":"no"}}
        "#,
        expect![[r#"
            retry    529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
            retry    500 {"type":"error","error":{"type":"api_error","message":"Internal server error"}}
            retry    429 {"type":"error","error":{"type":"rate_limit_error","message":"too many tokens per minute"}}
            auth     401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}
            auth     403 {"type":"error","error":{"type":"permission_error","message":"permission denied"}}
            auth     402 {"type":"error","error":{"type":"billing_error","message":"pay first"}}
            fatal    404 {"type":"error","error":{"type":"not_found_error","message":"model not found"}}
            overflow 413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}
            overflow 400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}
            overflow 400 {"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000"}}
            auth     400 {"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low. Go to Plans & Billing"}}
            fatal    400 {"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 1500 > 500, which is the maximum; see error 529"}}
            retry    - {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
            retry    - {"type":"error","error":{"type":"api_error","message":"Internal server error"}}
            retry    - {"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}
            fatal    - {"type":"error","error":{"type":"invalid_request_error","message":"bad request, timeout must be a number"}}
            overflow - {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}
            auth     - {"type":"error","error":{"type":"authentication_error","message":"revoked"}}
            retry    - {"type":"error","error":{"type":"brand_new_error","message":"the connection timed out"}}
            fatal    - {"type":"error","error":{"type":"brand_new_error","message":"no"}}
        "#]],
    );
}

#[test]
fn openai() {
    check(
        r#"
        500 {"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}
        429 {"error":{"message":"Rate limit exceeded, slow down","type":"rate_limit_exceeded","code":"rate_limit_exceeded"}}
        429 {"error":{"message":"You exceeded your current quota, please check your plan and billing details","type":"insufficient_quota","code":"insufficient_quota"}}
        401 {"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}
        400 {"error":{"message":"too much","type":"invalid_request_error","code":"context_length_exceeded"}}
        400 {"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 213462 tokens.","type":"invalid_request_error","code":null}}
        404 {"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}
        - {"error":{"message":"Overloaded","type":"overloaded_error","code":null}}
        - {"type":"error","sequence_number":9,"code":"rate_limit_exceeded","message":"slow down","param":null}
        - {"type":"error","sequence_number":9,"code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","param":null}
        "#,
        expect![[r#"
            retry    500 {"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}
            retry    429 {"error":{"message":"Rate limit exceeded, slow down","type":"rate_limit_exceeded","code":"rate_limit_exceeded"}}
            auth     429 {"error":{"message":"You exceeded your current quota, please check your plan and billing details","type":"insufficient_quota","code":"insufficient_quota"}}
            auth     401 {"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}
            overflow 400 {"error":{"message":"too much","type":"invalid_request_error","code":"context_length_exceeded"}}
            overflow 400 {"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 213462 tokens.","type":"invalid_request_error","code":null}}
            fatal    404 {"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}
            retry    - {"error":{"message":"Overloaded","type":"overloaded_error","code":null}}
            retry    - {"type":"error","sequence_number":9,"code":"rate_limit_exceeded","message":"slow down","param":null}
            overflow - {"type":"error","sequence_number":9,"code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","param":null}
        "#]],
    );
}

#[test]
fn google() {
    check(
        r#"
        503 {"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}
        429 {"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}
        429 {"error":{"code":429,"message":"Quota exceeded for metric: free_tier_requests","status":"RESOURCE_EXHAUSTED"}}
        429 {"error":{"code":429,"message":"Quota exceeded for metric: free_tier_requests","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"13s"}]}}
        429 {"error":{"code":429,"message":"Quota exceeded for metric: x, id: RequestsPerDay","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"13s"}]}}
        400 {"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}
        400 {"error":{"code":400,"message":"The input token count (213462) exceeds the maximum number of tokens allowed (200000).","status":"INVALID_ARGUMENT"}}
        403 {"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}
        - {"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}
        "#,
        expect![[r#"
            retry    503 {"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}
            retry    429 {"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}
            auth     429 {"error":{"code":429,"message":"Quota exceeded for metric: free_tier_requests","status":"RESOURCE_EXHAUSTED"}}
            retry    429 {"error":{"code":429,"message":"Quota exceeded for metric: free_tier_requests","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"13s"}]}}
            auth     429 {"error":{"code":429,"message":"Quota exceeded for metric: x, id: RequestsPerDay","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"13s"}]}}
            auth     400 {"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}
            overflow 400 {"error":{"code":400,"message":"The input token count (213462) exceeds the maximum number of tokens allowed (200000).","status":"INVALID_ARGUMENT"}}
            auth     403 {"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}
            retry    - {"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}
        "#]],
    );
}

#[test]
fn text_decides_without_status_and_code() {
    check(
        "
        - upstream connect error or disconnect/reset before headers
        - socket timed out
        - Rate-limit reached, too many tokens
        - out of budget
        - the request exceeds the available context size
        - Throttling error: too many tokens, please wait
        - max 1500 tokens, error 429
        - something else
        ",
        expect![[r#"
            retry    - upstream connect error or disconnect/reset before headers
            retry    - socket timed out
            retry    - Rate-limit reached, too many tokens
            auth     - out of budget
            overflow - the request exceeds the available context size
            retry    - Throttling error: too many tokens, please wait
            fatal    - max 1500 tokens, error 429
            fatal    - something else
        "#]],
    );
}

#[test]
fn bad_request_that_says_overload_is_retried() {
    check(
        r#"
        400 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
        422 {"type":"error","error":{"type":"rate_limit_error","message":"too many tokens per minute"}}
        400 {"error":{"message":"slow down","type":"invalid_request_error","code":"rate_limit_exceeded"}}
        400 {"error":{"message":"Your credit balance is too low","type":"rate_limit_error"}}
        400 The model is overloaded
        422 {"error":{"message":"Rate limit reached","code":422}}
        400 {"error":{"message":"the word overloaded is no operator","type":"invalid_request_error"}}
        404 no page about a rate limit
        400 {"error":{"message":"no"}}
        "#,
        expect![[r#"
            retry    400 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
            retry    422 {"type":"error","error":{"type":"rate_limit_error","message":"too many tokens per minute"}}
            retry    400 {"error":{"message":"slow down","type":"invalid_request_error","code":"rate_limit_exceeded"}}
            auth     400 {"error":{"message":"Your credit balance is too low","type":"rate_limit_error"}}
            retry    400 The model is overloaded
            retry    422 {"error":{"message":"Rate limit reached","code":422}}
            fatal    400 {"error":{"message":"the word overloaded is no operator","type":"invalid_request_error"}}
            fatal    404 no page about a rate limit
            fatal    400 {"error":{"message":"no"}}
        "#]],
    );
}

#[test]
fn retry_delay_is_passed_on() {
    let waits = |body: &str, after: Option<u64>| {
        let after = after.map(Duration::from_secs);
        match (Failure { status: Some(429), body, after }).classify("429".into()) {
            ProviderError::Retry { after, .. } => after.map(|after| after.as_secs()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(waits("", Some(3)), Some(3));
    assert_eq!(waits("try again in 5s", None), Some(5));
    // The header takes precedence.
    assert_eq!(waits("try again in 5s", Some(3)), Some(3));
    assert_eq!(waits("", None), None);
}
