# fish completion of samebits
complete -c samebits -n __fish_use_subcommand -f -a 'verify fingerprint bench info'
set -l verify '__fish_seen_subcommand_from verify'
for option in quick full all self-test accuracy formats
    complete -c samebits -n $verify -l $option
end
complete -c samebits -n $verify -l seed -x
complete -c samebits -n $verify -l fuzz -x
complete -c samebits -n $verify -l form -x
complete -c samebits -n $verify -l op -x -a 'matmul addmm linear linear_prepared matmul_quantized gather_prepared attention softmax log_softmax logsumexp log_likelihood rms_norm layer_norm l2_norm group_norm add_rms_norm sum mean max argmax top_k sample embedding exp sigmoid tanh relu silu gelu gelu_tanh gelu_quick swiglu geglu geglu_tanh add sub mul div scale rope'
complete -c samebits -n '__fish_seen_subcommand_from verify fingerprint' -l cpu -x -a 'scalar avx2 avx512 amx neon'
complete -c samebits -n '__fish_seen_subcommand_from fingerprint' -l check
complete -c samebits -n '__fish_seen_subcommand_from bench' -f -a 'matmul quantized attention rows modes'
complete -c samebits -n '__fish_seen_subcommand_from bench' -l quick
complete -c samebits -n '__fish_seen_subcommand_from bench' -l sweep
complete -c samebits -n '__fish_seen_subcommand_from bench' -l form -x
complete -c samebits -n '__fish_seen_subcommand_from bench' -l threads -x
complete -c samebits -n '__fish_seen_subcommand_from bench' -l plot -r
complete -c samebits -n '__fish_seen_subcommand_from verify bench' -l stock -r
complete -c samebits -n '__fish_seen_subcommand_from verify bench info' -l ggml -r
complete -c samebits -n '__fish_seen_subcommand_from verify fingerprint bench info' -l json
