# bash completion of samebits
_samebits()
{
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words
    case $previous in
        --cpu) words='scalar avx2 avx512 amx neon' ;;
        --op) words='matmul addmm linear linear_prepared matmul_quantized gather_prepared attention softmax log_softmax logsumexp log_likelihood rms_norm layer_norm l2_norm group_norm add_rms_norm sum mean max argmax top_k sample embedding exp sigmoid tanh relu silu gelu gelu_tanh gelu_quick swiglu geglu geglu_tanh add sub mul div scale rope' ;;
        --stock | --plot | --ggml | --seed | --threads | --fuzz | --form) words= ;;
        *)
            case ${COMP_WORDS[1]} in
                verify) words='--quick --full --all --fuzz --form --seed --op --cpu --stock --self-test --accuracy --formats --ggml --json --help' ;;
                fingerprint) words='--cpu --check --json --help' ;;
                bench) words='matmul quantized attention rows modes --quick --sweep --form --threads --stock --ggml --plot --json --help' ;;
                info) words='--ggml --json --help' ;;
            esac
            ((COMP_CWORD == 1)) && words='verify fingerprint bench info --help --version'
            ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _samebits samebits
