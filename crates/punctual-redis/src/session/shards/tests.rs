//! What a process knows of the shards of its namespaces.

use punctual::engine::Namespace;

use super::Shards;

#[test]
fn the_most_finely_cut_namespace_counts() {
    let shards = Shards::default();
    assert_eq!(shards.most(), 1, "before any server has answered");
    for (name, count) in [("shop", 4), ("other", 1)] {
        let namespace = Namespace::new(name).expect("a good name");
        shards.first(&namespace);
        shards.cut(&namespace, count);
    }
    assert_eq!(shards.most(), 4);
}
