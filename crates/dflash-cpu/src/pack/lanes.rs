use super::{Kind, LANES};

/// Writes a cell of one row (floats, or one quantised unit) into lane `lane` of a group.
pub(super) fn scatter(kind: Kind, group: &mut [u8], lane: usize, cell: &[u8]) {
    let (head, blocks) = cell.split_at(kind.head_bytes());
    let (group_head, group_blocks) = group.split_at_mut(head.len() * LANES);
    scatter_runs(kind.scale_bytes(), group_head, lane, head);
    let width = section(kind, blocks.len());
    for (target, block) in group_blocks.chunks_exact_mut(width * LANES).zip(blocks.chunks_exact(width)) {
        let (head, elements) = block.split_at(kind.block_head_bytes());
        let (target_head, target_elements) = target.split_at_mut(head.len() * LANES);
        scatter_runs(head.len(), target_head, lane, head);
        scatter_runs(kind.run_bytes(), target_elements, lane, elements);
    }
}

/// Reads a cell from lane `lane` of a group.
pub(super) fn collect(kind: Kind, group: &[u8], lane: usize, cell: &mut [u8]) {
    let (head, blocks) = cell.split_at_mut(kind.head_bytes());
    let (group_head, group_blocks) = group.split_at(head.len() * LANES);
    collect_runs(kind.scale_bytes(), group_head, lane, head);
    let width = section(kind, blocks.len());
    for (source, block) in group_blocks.chunks_exact(width * LANES).zip(blocks.chunks_exact_mut(width)) {
        let (head, elements) = block.split_at_mut(kind.block_head_bytes());
        let (source_head, source_elements) = source.split_at(head.len() * LANES);
        collect_runs(head.len(), source_head, lane, head);
        collect_runs(kind.run_bytes(), source_elements, lane, elements);
    }
}

/// Bytes of one row that are interleaved by themselves: a block with a head, or all elements.
fn section(kind: Kind, blocks: usize) -> usize {
    if kind.block_head_bytes() > 0 { kind.block_bytes() } else { blocks }
}

fn scatter_runs(width: usize, group: &mut [u8], lane: usize, cell: &[u8]) {
    match width {
        2 => scatter_fixed::<2>(group, lane, cell),
        4 => scatter_fixed::<4>(group, lane, cell),
        _ => debug_assert!(cell.is_empty()),
    }
}

fn scatter_fixed<const W: usize>(group: &mut [u8], lane: usize, cell: &[u8]) {
    let (targets, sources) = (group.as_chunks_mut::<W>().0, cell.as_chunks::<W>().0);
    let lanes = targets.iter_mut().skip(lane).step_by(LANES);
    lanes.zip(sources).for_each(|(target, source)| *target = *source);
}

fn collect_runs(width: usize, group: &[u8], lane: usize, cell: &mut [u8]) {
    match width {
        2 => collect_fixed::<2>(group, lane, cell),
        4 => collect_fixed::<4>(group, lane, cell),
        _ => debug_assert!(cell.is_empty()),
    }
}

fn collect_fixed<const W: usize>(group: &[u8], lane: usize, cell: &mut [u8]) {
    let (sources, targets) = (group.as_chunks::<W>().0, cell.as_chunks_mut::<W>().0);
    let lanes = sources.iter().skip(lane).step_by(LANES);
    lanes.zip(targets).for_each(|(source, target)| *target = *source);
}
