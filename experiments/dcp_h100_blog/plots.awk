# results.csv to tables for gnuplot: throughput.dat (place, label, published, and per framework simulated and its spread),
# recompute.dat (place, label, published, simulated), imbalance.dat (a block per policy), sp.dat (a block per class).
BEGIN {
  FS = ","
  n_policies = split("bucket dcp_rebalance dcp_inter dcp", policies, " ")
  split("bucket rebalance inter dcp", short, " ")
  split("short balanced long", mixes, " ")
  split("1 51 102 204 408", lengths, " ")
  split("144p 240p 360p 480p 720p", sizes, " ")
}
{ published[$1, $2] = $3; simulated[$1, $2] = $4 }
END {
  for (m = 1; m <= 3; m++)
    for (p = 1; p <= n_policies; p++) {
      printf "%d \"%s%s\"", 5 * (m - 1) + p, short[p], p == 2 ? "\\n" mixes[m] : "" >(out "/throughput.dat")
      rate = "mega_elements_per_s." policies[p]; spread = "mega_elements_per_s_sd." policies[p]
      printf " %s", published["eager_apex_" mixes[m], rate] >(out "/throughput.dat")
      printf " %s %s", simulated["eager_apex_" mixes[m], rate], simulated["eager_apex_" mixes[m], spread] >(out "/throughput.dat")
      printf " %s %s\n", simulated["eager_" mixes[m], rate], simulated["eager_" mixes[m], spread] >(out "/throughput.dat")
    }
  for (f = 1; f <= 5; f++)
    for (s = 1; s <= 5; s++) {
      name = "eager_apex_" lengths[f] "_frames_" sizes[s]
      printf "%d \"%s%s\" %s %s\n", 6 * (f - 1) + s, sizes[s], s == 3 ? "\\n" (f == 1 ? "images" : lengths[f] " frames") : "", \
        published[name, "pac_gain_percent"], simulated[name, "pac_gain_percent"] >(out "/recompute.dat")
    }
  for (p = 1; p <= n_policies; p++) {
    for (gpus = 8; gpus <= 32; gpus *= 2) {
      name = "eager_apex_gpus_" gpus
      print gpus, published[name, "imbalance_percent." policies[p]], simulated[name, "imbalance_percent." policies[p]], \
        simulated[name, "imbalance_percent_sd." policies[p]] >(out "/imbalance.dat")
    }
    printf "\n\n" >(out "/imbalance.dat")
  }
  for (class = 1; class <= 4; class *= 2) {
    print 1, 1, 1 >(out "/sp.dat")
    for (sp = 2; sp <= 8; sp *= 2) {
      name = "eager_apex_best_sp_" class SUBSEP "relative_throughput.sp" sp
      print sp, published[name], simulated[name] >(out "/sp.dat")
    }
    printf "\n\n" >(out "/sp.dat")
  }
}
