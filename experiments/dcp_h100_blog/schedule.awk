# A schedule (dcpsim.schedule/1) to "elements first": VAE latent elements of all its micro-batches, and the samples that
# the first iteration's busiest group needs, which one loader worker prepares before training can begin.
# Latent elements of a frame by transformer positions: a sample's published size, before patches of 2x2 are cut.
BEGIN {
  per_frame[144] = 576; per_frame[405] = 1590; per_frame[920] = 3600; per_frame[1590] = 6360; per_frame[3600] = 14400
}
/"groups":/ {
  groups = split($0, group, /"ranks":\[/)
  for (i = 2; i <= groups; i++) {
    samples = 0
    batches = split(group[i], batch, /"shapes":\[/)
    for (j = 2; j <= batches; j++) {
      # A bucket's samples are alike: count the shapes, read the first.
      sub(/\]\].*/, "", batch[j])
      n = gsub(/\[/, "[", batch[j])
      split(batch[j], shape, /[^0-9]+/)
      elements += n * shape[2] * per_frame[shape[3]]
      samples += n
    }
    if (!later && samples > first) first = samples
  }
  later = 1
}
END { printf "%.0f %d\n", elements, first }
