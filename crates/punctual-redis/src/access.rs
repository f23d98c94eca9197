//! The Redis commands that a user of the servers needs.

/// What a user of the servers must be allowed, and need not be allowed more: the rest of the line
/// `ACL SETUSER punctual on >PASSWORD ...`.
///
/// First what the engine sends, then what the functions do with the keys under `punctual:`.
pub const ACL_RULES: &str = "~punctual:* resetchannels -@all \
     +info +select +role +config|get +bgrewriteaof +cluster|slots +function|load +fcall +fcall_ro \
     +bzpopmin +zmpop +pexpire +sadd +smembers +wait +hmget +zadd \
     +append +del +exists +expire +get +getrange +hdel +hget +hgetall +hincrby +hkeys +hlen +hscan +hset \
     +lindex +llen +lpop +lpush +lrange +lrem +lset +ltrim +rpush +time +zcount +zlexcount +zrange \
     +zrangebylex +zrangebyscore +zrem +zremrangebyrank +zscore";

#[cfg(test)]
mod tests;
